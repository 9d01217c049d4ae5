package main

/*
#include "cgo.h"
*/
import "C"

import (
	"runtime"
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

//export mck_buffer_free
func mck_buffer_free(owner C.uint64_t) {
	if h, _, ok := handles.Take[*held](&buffers, int64(owner), 0); ok {
		h.pin.Unpin()
		h.lent.Release()
	}
}
