package main

/*
#include <stdlib.h>
#include "cgo.h"

// numbers returns memory for n numbers, or NULL if there is none.
static inline uint64_t *numbers(uint64_t n) { return malloc(n * sizeof(uint64_t)); }
*/
import "C"

import (
	"sync"
	"unsafe"

	"github.com/mooncake-go/mooncake/core/bindings/store"
)

// This compiles only if both are equal.
const _ uint = -(store.PerReplica ^ C.MCK_REPLICA_NUMBERS)

// located pools answers.
var located = sync.Pool{New: func() any { return new(store.Located) }}

//export mck_store_replicas
func mck_store_replicas(s C.mck_handle, keys C.mck_texts, counts *C.uint64_t) C.mck_blob {
	out := view[uint64](counts, keys.n)
	clear(out)
	return withStore(s, C.mck_blob{}, func(t *store.Store) C.mck_blob {
		found := located.Get().(*store.Located) //nolint:forcetypeassert // Nothing else is in the pool.
		defer located.Put(found)
		t.Replicas(texts(keys), found, out)
		return columns(found)
	})
}

// columns copies the numbers and texts of an answer into memory of C.
func columns(l *store.Located) C.mck_blob {
	if len(l.Rows) == 0 {
		return C.mck_blob{}
	}
	size := 0
	for _, e := range l.Endpoints {
		size += len(e)
	}
	numbers := 1 + len(l.Endpoints) + len(l.Rows)
	data := C.numbers(C.uint64_t(numbers + (size+7)/8))
	if data == nil {
		return C.mck_blob{}
	}
	to := view[uint64](data, C.uint64_t(numbers))
	text := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(data), 8*numbers)), size)
	to[0] = uint64(len(l.Endpoints))
	end := 0
	for i, e := range l.Endpoints {
		end += copy(text[end:], e)
		to[1+i] = uint64(end)
	}
	copy(to[1+len(l.Endpoints):], l.Rows)
	return C.mck_blob{data: (*C.char)(unsafe.Pointer(data)), size: C.uint64_t(8*numbers + size)}
}
