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
	ranges := store.Ranges{
		Buffers: view[uint64](bufs, n), KeyRows: view[uint64](keyRows, n+1), FragRows: rows,
		DstOffsets: view[uint64](dst, frags), SrcOffsets: view[uint64](src, frags), Sizes: view[uint64](sizes, frags),
	}
	fillUnless(withStore(s, false, func(t *store.Store) bool {
		call(t, total(ranges.Sizes), func(t *store.Store) { t.GetRanges(texts(keys), ranges, out) })
		return true
	}), out)
}

//export mck_store_control
func mck_store_control(s C.mck_handle, method *C.mck_const_char, size C.uint64_t, args *C.mck_const_char, argsSize C.uint64_t) C.mck_blob {
	return withStore(s, blob(`{"code":-600}`), func(t *store.Store) C.mck_blob { return blob(t.Control(text(method, size), text(args, argsSize))) })
}
