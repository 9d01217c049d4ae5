package main

/*
#include "cgo.h"
*/
import "C"

import "unsafe"

// view returns n elements in memory of C. They are valid until the call returns.
func view[T, U any](p *U, n C.uint64_t) []T { return unsafe.Slice((*T)(unsafe.Pointer(p)), int(n)) }

// text copies one text.
func text(p *C.mck_const_char, n C.uint64_t) string {
	return string(unsafe.Slice((*byte)(unsafe.Pointer(p)), int(n)))
}

// texts copies n texts into one allocation.
func texts(t C.mck_texts) []string {
	if t.n == 0 {
		return nil
	}
	ends := view[uint64](t.ends, t.n)
	all := string(unsafe.Slice((*byte)(unsafe.Pointer(t.data)), int(ends[len(ends)-1])))
	out, begin := make([]string, len(ends)), uint64(0)
	for i, end := range ends {
		out[i], begin = all[begin:end], end
	}
	return out
}
