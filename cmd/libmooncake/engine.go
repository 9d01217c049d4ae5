package main

/*
#include "cgo.h"
*/
import "C"

import (
	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/bindings/engine"
	"github.com/mooncake-go/mooncake/core/bindings/handles"
	"github.com/mooncake-go/mooncake/core/bindings/upstream"
)

// withEngine calls do with the engine that h stands for, and returns missing if there is none.
func withEngine[R any](h C.mck_handle, missing R, do func(*engine.Engine) R) R {
	return with(int64(h), missing, do)
}

// engineOf returns the initialized engine that a handle stands for, for a store that shares it.
// done ends the use of the handle.
func engineOf(h int64) (e *app.Engine, done func(), ok bool) {
	u := handles.Begin[*engine.Engine](&objects, h)
	if !u.OK {
		return nil, func() {}, false
	}
	e, err := u.Value.Core()
	return e, u.Done, err == nil
}

//export mck_engine_new
func mck_engine_new() C.mck_handle {
	fromC()
	return C.mck_handle(objects.Add(engine.New(source)))
}

//export mck_engine_free
func mck_engine_free(h C.mck_handle) { free[*engine.Engine](int64(h)) }

//export mck_engine_initialize
func mck_engine_initialize(h C.mck_handle, data *C.mck_const_char, size C.uint64_t) C.int32_t {
	return withEngine(h, -1, func(e *engine.Engine) C.int32_t {
		if err := e.Initialize(text(data, size)); err != nil {
			return -1
		}
		return 0
	})
}

//export mck_engine_rpc_port
func mck_engine_rpc_port(h C.mck_handle) C.int32_t {
	return withEngine(h, 0, func(e *engine.Engine) C.int32_t { return C.int32_t(e.RPCPort()) })
}

//export mck_engine_register
func mck_engine_register(h C.mck_handle, n C.uint64_t, ptrs, sizes *C.mck_const_u64, location *C.mck_const_char, size C.uint64_t) C.int32_t {
	return withEngine(h, -1, func(e *engine.Engine) C.int32_t {
		list, err := memoryAt(view[uint64](ptrs, n), view[uint64](sizes, n))
		if err != nil {
			return C.int32_t(upstream.Result(e.Failed(err)))
		}
		return C.int32_t(upstream.Result(e.Register(list, text(location, size), true)))
	})
}

//export mck_engine_unregister
func mck_engine_unregister(h C.mck_handle, n C.uint64_t, ptrs *C.mck_const_u64) C.int32_t {
	return withEngine(h, -1, func(e *engine.Engine) C.int32_t {
		return C.int32_t(upstream.Result(e.Unregister(view[uint64](ptrs, n))))
	})
}

//export mck_engine_alloc
func mck_engine_alloc(h C.mck_handle, size C.uint64_t) C.uint64_t {
	return withEngine(h, 0, func(e *engine.Engine) C.uint64_t {
		addr, err := e.Allocate(uint64(size))
		if err != nil {
			return 0
		}
		return C.uint64_t(addr)
	})
}

//export mck_engine_free_memory
func mck_engine_free_memory(h C.mck_handle, ptr, _ C.uint64_t) C.int32_t {
	return withEngine(h, -1, func(e *engine.Engine) C.int32_t { return C.int32_t(upstream.Result(e.Release(uint64(ptr)))) })
}
