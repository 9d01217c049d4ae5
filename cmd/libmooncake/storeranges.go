package main

/*
#include "cgo.h"
*/
import "C"

import (
	"github.com/mooncake-go/mooncake/core/bindings/store"
)

//export mck_store_get_ranges
func mck_store_get_ranges(s C.mck_handle, bufs *C.mck_const_u64, n C.uint64_t, keyRows *C.mck_const_u64, keys C.mck_texts,
	fragRows, dst, src, sizes *C.mck_const_u64, results *C.int64_t) {
	rows := view[uint64](fragRows, keys.n+1)
	frags := C.uint64_t(rows[len(rows)-1])
	out := view[int64](results, frags)
	u := useStore(s)
	defer u.Done()
	if !u.OK {
		fill(out, C.MCK_INVALID_PARAMS)
		return
	}
	ranges := store.Ranges{
		Buffers: view[uint64](bufs, n), KeyRows: view[uint64](keyRows, n+1), FragRows: rows,
		DstOffsets: view[uint64](dst, frags), SrcOffsets: view[uint64](src, frags), Sizes: view[uint64](sizes, frags),
	}
	call(u.Value, total(ranges.Sizes), func(t *store.Store) { t.GetRanges(texts(keys), ranges, out) })
}

//export mck_store_control
func mck_store_control(s C.mck_handle, method *C.mck_const_char, size C.uint64_t, args *C.mck_const_char, argsSize C.uint64_t) C.mck_blob {
	u := useStore(s)
	defer u.Done()
	if !u.OK {
		return blob(`{"code":-600}`)
	}
	return blob(u.Value.Control(text(method, size), text(args, argsSize)))
}
