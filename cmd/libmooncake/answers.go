package main

/*
#include <stdlib.h>
#include "cgo.h"

// numbers returns memory for n numbers, or NULL if there is none.
static inline uint64_t *numbers(uint64_t n) { return malloc(n * sizeof(uint64_t)); }
*/
import "C"

import (
	"runtime"
	"sync"
	"unsafe"

	"github.com/mooncake-go/mooncake/core/bindings/handles"
	"github.com/mooncake-go/mooncake/core/bindings/store"
	pool "github.com/mooncake-go/mooncake/core/store"
)

// held is an object whose memory C uses. Memory of Go is pinned meanwhile.
type held struct {
	lent pool.Lent
	pin  runtime.Pinner
}

// answer is mck_buffer with a number for the address. Go must not write a pointer to uncleared
// memory of C: the garbage collector would read the previous content, and end the process if it is
// the address of a freed object.
type answer struct {
	owner, data, size uint64
	status, readOnly  int64
}

// This compiles only if both have the same size.
const _ = -(unsafe.Sizeof(answer{}) ^ unsafe.Sizeof(C.mck_buffer{}))

//export mck_store_get_buffers
func mck_store_get_buffers(s C.mck_handle, keys C.mck_texts, out *C.mck_buffer) {
	to := view[answer](out, keys.n)
	lents := withStore(s, nil, func(t *store.Store) (lents []store.Lent) {
		// The sizes of the objects are not known before: one object counts as few bytes.
		call(t, uint64(keys.n)*inPlace, func(t *store.Store) { lents = t.GetBuffers(texts(keys)) })
		return lents
	})
	if lents == nil {
		for i := range to {
			to[i] = answer{status: C.MCK_INVALID_PARAMS}
		}
	}
	for i, l := range lents {
		to[i] = answer{status: l.Status}
		if l.ReadOnly {
			to[i].readOnly = 1
		}
		if l.Status == 0 {
			hold(l.Lent, &to[i])
		}
	}
}

func hold(l pool.Lent, to *answer) {
	h := &held{lent: l}
	mem := l.Bytes()
	data := unsafe.Pointer(unsafe.SliceData(mem))
	if data != nil {
		h.pin.Pin(data)
	}
	to.data, to.size = uint64(uintptr(data)), uint64(len(mem))
	to.owner = uint64(buffers.Add(h))
}

//export mck_buffers_free
func mck_buffers_free(owners *C.mck_const_u64, n C.uint64_t) {
	for _, owner := range view[uint64](owners, n) {
		if h, _, ok := handles.Take[*held](&buffers, int64(owner), 0); ok {
			h.pin.Unpin()
			h.lent.Release()
		}
	}
}

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
