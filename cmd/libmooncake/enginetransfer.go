package main

/*
#include "cgo.h"
*/
import "C"

import (
	"encoding/json"

	"github.com/mooncake-go/mooncake/core/bindings/engine"
	"github.com/mooncake-go/mooncake/core/bindings/store"
	"github.com/mooncake-go/mooncake/core/bindings/upstream"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

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

// ranges returns the ranges that a transfer moves.
func ranges(n C.uint64_t, ptrs, addrs, sizes *C.mck_const_u64) ([]engine.Range, error) {
	local, err := memoryAt(view[uint64](ptrs, n), view[uint64](sizes, n))
	if err != nil {
		return nil, err
	}
	out := make([]engine.Range, len(local))
	for i, addr := range view[uint64](addrs, n) {
		out[i] = engine.Range{Local: local[i], Addr: addr}
	}
	return out, nil
}

// direction returns the kind of operation that an opcode stands for.
func direction(opcode C.int32_t) (transport.OpKind, error) {
	switch opcode {
	case C.MCK_READ:
		return transport.Read, nil
	case C.MCK_WRITE:
		return transport.Write, nil
	}
	return 0, errs.New(errs.InvalidParams, "transfer", "the direction %d is neither read (%d) nor write (%d)", int32(opcode), C.MCK_READ, C.MCK_WRITE)
}

//export mck_engine_transfer
func mck_engine_transfer(h C.mck_handle, target *C.mck_const_char, size C.uint64_t, opcode C.int32_t, n C.uint64_t,
	ptrs, addrs, sizes *C.mck_const_u64, notify C.mck_texts,
) C.int32_t {
	return withEngine(h, -1, func(e *engine.Engine) C.int32_t {
		kind, err := direction(opcode)
		if err != nil {
			return C.int32_t(upstream.Result(e.Failed(err)))
		}
		list, err := ranges(n, ptrs, addrs, sizes)
		if err != nil {
			return C.int32_t(upstream.Result(e.Failed(err)))
		}
		var notice *engine.Notice
		if t := texts(notify); len(t) == 2 {
			notice = &engine.Notice{Name: t[0], Message: t[1]}
		}
		if e.Transfer(text(target, size), kind, list, notice) != nil {
			return -1
		}
		return 0
	})
}

//export mck_engine_submit
func mck_engine_submit(h C.mck_handle, target *C.mck_const_char, size C.uint64_t, opcode C.int32_t, n C.uint64_t,
	ptrs, addrs, sizes *C.mck_const_u64,
) C.uint64_t {
	return withEngine(h, 0, func(e *engine.Engine) C.uint64_t {
		kind, err := direction(opcode)
		if err != nil {
			_ = e.Failed(err)
			return 0
		}
		list, err := ranges(n, ptrs, addrs, sizes)
		if err != nil {
			_ = e.Failed(err)
			return 0
		}
		id, err := e.Submit(text(target, size), kind, list)
		if err != nil {
			return 0
		}
		return C.uint64_t(id)
	})
}

//export mck_engine_wait
func mck_engine_wait(h C.mck_handle, n C.uint64_t, batches *C.mck_const_u64) C.int32_t {
	return withEngine(h, -1, func(e *engine.Engine) C.int32_t {
		if e.Wait(view[uint64](batches, n)) != nil {
			return -1
		}
		return 0
	})
}

//export mck_engine_check
func mck_engine_check(h C.mck_handle, batch C.uint64_t) C.int32_t {
	return withEngine(h, engine.Failed, func(e *engine.Engine) C.int32_t { return C.int32_t(e.Check(uint64(batch))) })
}

//export mck_engine_first_buffer
func mck_engine_first_buffer(h C.mck_handle, segment *C.mck_const_char, size C.uint64_t) C.uint64_t {
	return withEngine(h, 0, func(e *engine.Engine) C.uint64_t {
		addr, err := e.FirstBuffer(text(segment, size))
		if err != nil {
			return 0
		}
		return C.uint64_t(addr)
	})
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
	list := withEngine(h, nil, (*engine.Engine).Notices)
	out, err := json.Marshal(append([]engine.Notice{}, list...))
	if err != nil {
		return C.mck_blob{}
	}
	return blob(string(out))
}

//export mck_engine_probe
func mck_engine_probe(h C.mck_handle, peer *C.mck_const_char, size C.uint64_t) C.int32_t {
	return withEngine(h, -1, func(e *engine.Engine) C.int32_t { return C.int32_t(upstream.Unreachable(e.Probe(text(peer, size)))) })
}
