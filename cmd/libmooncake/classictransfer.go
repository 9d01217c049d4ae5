package main

/*
#include "classic.h"
*/
import "C"

import (
	"unsafe"

	"github.com/mooncake-go/mooncake/core/bindings/engine"
	"github.com/mooncake-go/mooncake/core/bindings/store"
	"github.com/mooncake-go/mooncake/core/bindings/upstream"
)

//export openSegment
func openSegment(engine C.transfer_engine_t, name *C.te_const_char) C.int32_t {
	return open(engine, name, (*upstream.Engine).Open)
}

//export openSegmentNoCache
func openSegmentNoCache(engine C.transfer_engine_t, name *C.te_const_char) C.int32_t {
	return open(engine, name, (*upstream.Engine).OpenFresh)
}

func open(engine C.transfer_engine_t, name *C.te_const_char, how func(*upstream.Engine, string) (int32, error)) C.int32_t {
	return withClassic(engine, invalid, func(e *upstream.Engine) C.int32_t {
		id, err := how(e, cString(name))
		if err != nil {
			return result(e, "openSegment", err)
		}
		return C.int32_t(id)
	})
}

//export closeSegment
func closeSegment(engine C.transfer_engine_t, _ C.int32_t) C.int { return known(engine) }

//export warmupEfaSegment
func warmupEfaSegment(engine C.transfer_engine_t, _ *C.te_const_char) C.int { return known(engine) }

// known returns 0 if the engine exists.
func known(engine C.transfer_engine_t) C.int {
	return withClassic(engine, invalid, func(e *upstream.Engine) C.int { return 0 })
}

//export removeLocalSegment
func removeLocalSegment(engine C.transfer_engine_t, name *C.te_const_char) C.int {
	return withClassic(engine, invalid, func(e *upstream.Engine) C.int { return result(e, "removeLocalSegment", e.Remove(cString(name))) })
}

//export syncSegmentCache
func syncSegmentCache(engine C.transfer_engine_t) C.int {
	return withClassic(engine, invalid, func(e *upstream.Engine) C.int { return result(e, "syncSegmentCache", e.Sync("")) })
}

// maxBatch bounds the requests of a batch and the elements of a list.
const maxBatch = 1 << 30

//export allocateBatchID
func allocateBatchID(engine C.transfer_engine_t, n C.size_t) C.uint64_t {
	return withClassic(engine, C.INVALID_BATCH, func(e *upstream.Engine) C.uint64_t {
		id, err := e.NewBatch(int(min(n, maxBatch)))
		if err != nil {
			e.Log("allocateBatchID", err)
			return C.INVALID_BATCH
		}
		return C.uint64_t(id)
	})
}

//export submitTransfer
func submitTransfer(engine C.transfer_engine_t, batch C.uint64_t, list *C.struct_transfer_request, n C.size_t) C.int {
	return submit(engine, batch, list, n, nil)
}

//export submitTransferWithNotify
func submitTransferWithNotify(engine C.transfer_engine_t, batch C.uint64_t, list *C.struct_transfer_request, n C.size_t, notify C.notify_msg_t) C.int {
	return submit(engine, batch, list, n, notice(notify))
}

func notice(n C.notify_msg_t) *engine.Notice {
	return &engine.Notice{Name: C.GoString(n.name), Message: C.GoString(n.msg)}
}

func submit(engine C.transfer_engine_t, batch C.uint64_t, list *C.struct_transfer_request, n C.size_t, notify *engine.Notice) C.int {
	return withClassic(engine, upstream.InvalidArgument, func(e *upstream.Engine) C.int {
		if list == nil || n == 0 || n > maxBatch {
			return upstream.InvalidArgument
		}
		reqs := make([]upstream.Request, int(n))
		for i, r := range unsafe.Slice(list, int(n)) {
			local, ok := store.At(uint64(uintptr(r.source)), uint64(r.length))
			if !ok {
				return upstream.InvalidArgument
			}
			reqs[i] = upstream.Request{Kind: int(r.opcode), Segment: int32(r.target_id), Local: local, Addr: uint64(r.target_offset)}
		}
		err := e.Submit(uint64(batch), reqs, notify)
		if err != nil {
			e.Log("submitTransfer", err)
		}
		return C.int(upstream.Status(err))
	})
}

//export getTransferStatus
func getTransferStatus(engine C.transfer_engine_t, batch C.uint64_t, task C.size_t, out *C.struct_transfer_status) C.int {
	return withClassic(engine, upstream.InvalidArgument, func(e *upstream.Engine) C.int {
		if out == nil {
			return upstream.InvalidArgument
		}
		state, bytes, err := e.Status(uint64(batch), int(min(task, maxBatch)))
		if err == nil {
			out.status, out.transferred_bytes = C.int(state), C.uint64_t(bytes)
		}
		return C.int(upstream.Status(err))
	})
}

//export freeBatchID
func freeBatchID(engine C.transfer_engine_t, batch C.uint64_t) C.int {
	return withClassic(engine, upstream.InvalidArgument, func(e *upstream.Engine) C.int { return C.int(upstream.Status(e.Free(uint64(batch)))) })
}
