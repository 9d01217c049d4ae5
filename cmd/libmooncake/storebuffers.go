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

// held is an object whose memory C has. Memory of Go is pinned meanwhile.
type held struct {
	lent pool.Lent
	pin  runtime.Pinner
}

// answer is mck_buffer with a number for the address. Go must not write a pointer to memory
// of C that nobody cleared: the garbage collector would look at what was there before, and
// end the process over the address of an object that is gone.
type answer struct {
	owner, data, size uint64
	status, readOnly  int64
}

// The two are of one size, or this does not compile.
const _ = -(unsafe.Sizeof(answer{}) ^ unsafe.Sizeof(C.mck_buffer{}))

//export mck_store_get_buffers
func mck_store_get_buffers(s C.mck_handle, keys C.mck_texts, out *C.mck_buffer) {
	to := view[answer](out, keys.n)
	u := useStore(s)
	defer u.Done()
	if !u.OK {
		for i := range to {
			to[i] = answer{status: C.MCK_INVALID_PARAMS}
		}
		return
	}
	var lents []store.Lent
	// How large objects are is not known before: one is taken for few bytes.
	call(u.Value, uint64(keys.n)*inPlace, func(t *store.Store) { lents = t.GetBuffers(texts(keys)) })
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
