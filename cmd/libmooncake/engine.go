package main

/*
#include "cgo.h"
*/
import "C"

import (
	"encoding/json"

	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/bindings/engine"
	"github.com/mooncake-go/mooncake/core/bindings/handles"
	"github.com/mooncake-go/mooncake/core/bindings/store"
	"github.com/mooncake-go/mooncake/core/bindings/upstream"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
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

// codeOf calls do and returns the number of its error, or -1 without an engine.
func codeOf(h C.mck_handle, number func(error) int, do func(*engine.Engine) error) C.int32_t {
	return withEngine(h, -1, func(e *engine.Engine) C.int32_t { return C.int32_t(number(do(e))) })
}

// succeeded returns 0 for success and -1 for every error.
func succeeded(err error) int {
	if err != nil {
		return -1
	}
	return 0
}

// valueOf calls do and returns its result, or 0 after an error and without an engine.
func valueOf(h C.mck_handle, do func(*engine.Engine) (uint64, error)) C.uint64_t {
	return withEngine(h, 0, func(e *engine.Engine) C.uint64_t {
		v, err := do(e)
		if err != nil {
			return 0
		}
		return C.uint64_t(v)
	})
}

// memoryAt returns the memory at addresses that C gave, or InvalidParams for invalid addresses.
func memoryAt(ptrs, sizes []uint64) ([][]byte, error) {
	out := make([][]byte, len(ptrs))
	for i, ptr := range ptrs {
		mem, ok := store.At(ptr, sizes[i])
		if !ok {
			return nil, errs.New(errs.InvalidParams, "memory", "piece %d of %d: there is no memory of %d bytes at %#x", i, len(ptrs), sizes[i], ptr)
		}
		out[i] = mem
	}
	return out, nil
}

// transferOf returns what a transfer does: the kind of operation that an opcode stands for, and the
// ranges that it moves.
func transferOf(e *engine.Engine, opcode C.int32_t, n C.uint64_t, ptrs, addrs, sizes *C.mck_const_u64) (transport.OpKind, []engine.Range, error) {
	kind := transport.Read
	switch opcode {
	case C.MCK_READ:
	case C.MCK_WRITE:
		kind = transport.Write
	default:
		return 0, nil, e.Failed(errs.New(errs.InvalidParams, "transfer", "the direction %d is neither read (%d) nor write (%d)",
			int32(opcode), C.MCK_READ, C.MCK_WRITE))
	}
	local, err := memoryAt(view[uint64](ptrs, n), view[uint64](sizes, n))
	if err != nil {
		return 0, nil, e.Failed(err)
	}
	list := make([]engine.Range, len(local))
	for i, addr := range view[uint64](addrs, n) {
		list[i] = engine.Range{Local: local[i], Addr: addr}
	}
	return kind, list, nil
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
	return codeOf(h, succeeded, func(e *engine.Engine) error { return e.Initialize(text(data, size)) })
}

//export mck_engine_rpc_port
func mck_engine_rpc_port(h C.mck_handle) C.int32_t {
	return withEngine(h, 0, func(e *engine.Engine) C.int32_t { return C.int32_t(e.RPCPort()) })
}

//export mck_engine_register
func mck_engine_register(h C.mck_handle, n C.uint64_t, ptrs, sizes *C.mck_const_u64, location *C.mck_const_char, size C.uint64_t) C.int32_t {
	return codeOf(h, upstream.Result, func(e *engine.Engine) error {
		list, err := memoryAt(view[uint64](ptrs, n), view[uint64](sizes, n))
		if err != nil {
			return e.Failed(err)
		}
		return e.Register(list, text(location, size), true)
	})
}

//export mck_engine_unregister
func mck_engine_unregister(h C.mck_handle, n C.uint64_t, ptrs *C.mck_const_u64) C.int32_t {
	return codeOf(h, upstream.Result, func(e *engine.Engine) error { return e.Unregister(view[uint64](ptrs, n)) })
}

//export mck_engine_alloc
func mck_engine_alloc(h C.mck_handle, size C.uint64_t) C.uint64_t {
	return valueOf(h, func(e *engine.Engine) (uint64, error) { return e.Allocate(uint64(size)) })
}

//export mck_engine_free_memory
func mck_engine_free_memory(h C.mck_handle, ptr, _ C.uint64_t) C.int32_t {
	return codeOf(h, upstream.Result, func(e *engine.Engine) error { return e.Release(uint64(ptr)) })
}

//export mck_engine_transfer
func mck_engine_transfer(h C.mck_handle, target *C.mck_const_char, size C.uint64_t, opcode C.int32_t, n C.uint64_t,
	ptrs, addrs, sizes *C.mck_const_u64, notify C.mck_texts,
) C.int32_t {
	return withEngine(h, -1, func(e *engine.Engine) C.int32_t {
		kind, list, err := transferOf(e, opcode, n, ptrs, addrs, sizes)
		if err != nil {
			return C.int32_t(upstream.Result(err))
		}
		var notice *engine.Notice
		if t := texts(notify); len(t) == 2 {
			notice = &engine.Notice{Name: t[0], Message: t[1]}
		}
		return C.int32_t(succeeded(e.Transfer(text(target, size), kind, list, notice)))
	})
}

//export mck_engine_submit
func mck_engine_submit(h C.mck_handle, target *C.mck_const_char, size C.uint64_t, opcode C.int32_t, n C.uint64_t,
	ptrs, addrs, sizes *C.mck_const_u64,
) C.uint64_t {
	return valueOf(h, func(e *engine.Engine) (uint64, error) {
		kind, list, err := transferOf(e, opcode, n, ptrs, addrs, sizes)
		if err != nil {
			return 0, err
		}
		return e.Submit(text(target, size), kind, list)
	})
}

//export mck_engine_wait
func mck_engine_wait(h C.mck_handle, n C.uint64_t, batches *C.mck_const_u64) C.int32_t {
	return codeOf(h, succeeded, func(e *engine.Engine) error { return e.Wait(view[uint64](batches, n)) })
}

//export mck_engine_check
func mck_engine_check(h C.mck_handle, batch C.uint64_t) C.int32_t {
	return withEngine(h, engine.Failed, func(e *engine.Engine) C.int32_t { return C.int32_t(e.Check(uint64(batch))) })
}

//export mck_engine_first_buffer
func mck_engine_first_buffer(h C.mck_handle, segment *C.mck_const_char, size C.uint64_t) C.uint64_t {
	return valueOf(h, func(e *engine.Engine) (uint64, error) { return e.FirstBuffer(text(segment, size)) })
}

//export mck_engine_topology
func mck_engine_topology(devices *C.mck_const_char, size C.uint64_t) C.mck_blob {
	out, err := engine.Topology(source(), text(devices, size))
	if err != nil {
		return C.mck_blob{}
	}
	return blob(out)
}

//export mck_engine_notifies
func mck_engine_notifies(h C.mck_handle) C.mck_blob {
	out, err := json.Marshal(append([]engine.Notice{}, withEngine(h, nil, (*engine.Engine).Notices)...))
	if err != nil {
		return C.mck_blob{}
	}
	return blob(string(out))
}

//export mck_engine_probe
func mck_engine_probe(h C.mck_handle, peer *C.mck_const_char, size C.uint64_t) C.int32_t {
	return codeOf(h, upstream.Unreachable, func(e *engine.Engine) error { return e.Probe(text(peer, size)) })
}
