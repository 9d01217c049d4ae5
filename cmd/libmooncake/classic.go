package main

/*
#include "classic.h"
*/
import "C"

import (
	"unsafe"

	"github.com/mooncake-go/mooncake/core/bindings/engine"
	"github.com/mooncake-go/mooncake/core/bindings/handles"
	"github.com/mooncake-go/mooncake/core/bindings/store"
	"github.com/mooncake-go/mooncake/core/bindings/upstream"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// withClassic calls do with the engine of the C ABI behind a pointer, and returns missing if there
// is none.
func withClassic[R any](e C.transfer_engine_t, missing R, do func(*upstream.Engine) R) R {
	u := handles.Begin[*upstream.Engine](&objects, int64(C.te_number(e)))
	defer u.Done()
	if !u.OK {
		return missing
	}
	return do(u.Value)
}

// invalid is the result of a call without an engine.
const invalid = -upstream.InvalidArgument

// result calls do, logs its error and returns the error's number. It is for calls that are not about
// transfers.
func result(engine C.transfer_engine_t, call string, do func(*upstream.Engine) error) C.int {
	return withClassic(engine, invalid, func(e *upstream.Engine) C.int {
		err := do(e)
		if err != nil {
			e.Log(call, err)
		}
		return C.int(upstream.Result(err))
	})
}

// cString copies a text of C. NULL is the empty text.
func cString(p *C.te_const_char) string { return C.GoString((*C.char)(unsafe.Pointer(p))) }

// copyOut writes text and a final 0, and truncates text to the size of the buffer.
func copyOut(buf *C.char, size C.size_t, text string) {
	out := unsafe.Slice((*byte)(unsafe.Pointer(buf)), int(size))
	out[copy(out[:len(out)-1], text)] = 0
}

// textOut calls get and writes its text.
func textOut(engine C.transfer_engine_t, call string, buf *C.char, size C.size_t, get func(*upstream.Engine) (string, error)) C.int {
	if buf == nil || size == 0 {
		return invalid
	}
	return result(engine, call, func(e *upstream.Engine) error {
		text, err := get(e)
		if err == nil {
			copyOut(buf, size, text)
		}
		return err
	})
}

//export createTransferEngine
func createTransferEngine(conn, name, host *C.te_const_char, port C.uint64_t, discover C.int) C.transfer_engine_t {
	src := source()
	e, err := upstream.New(src, cString(conn), cString(name), discover != 0)
	if err != nil {
		src.Logger().Error("createTransferEngine failed", "error", err)
		return nil
	}
	return C.te_pointer(C.int64_t(objects.Add(e)))
}

//export destroyTransferEngine
func destroyTransferEngine(engine C.transfer_engine_t) {
	h := int64(C.te_number(engine))
	shutdown.Remove(h)
	free[*upstream.Engine](h)
}

// shutdown ends the engines that asked for it when a signal arrives.
var shutdown upstream.Shutdown

//export enableGracefulShutdown
func enableGracefulShutdown(engine C.transfer_engine_t) {
	if h := int64(C.te_number(engine)); known(engine) == 0 {
		shutdown.Add(h, func() { free[*upstream.Engine](h) })
	}
}

//export discoverTopology
func discoverTopology(engine C.transfer_engine_t) C.int {
	return result(engine, "discoverTopology", (*upstream.Engine).Discover)
}

//export getLocalIpAndPort
func getLocalIpAndPort(engine C.transfer_engine_t, buf *C.char, size C.size_t) C.int {
	return textOut(engine, "getLocalIpAndPort", buf, size, (*upstream.Engine).Name)
}

//export showLinks
func showLinks(engine C.transfer_engine_t, buf *C.char, size C.size_t, json C.int) C.int {
	return textOut(engine, "showLinks", buf, size, func(e *upstream.Engine) (string, error) {
		picture, err := e.Links()
		if err != nil || json == 0 {
			return picture.Text(), err
		}
		return picture.JSON()
	})
}

//export getNicLoadStats
func getNicLoadStats(engine C.transfer_engine_t, stats *C.nic_load_stat_t, count *C.size_t) C.int {
	return withClassic(engine, invalid, func(e *upstream.Engine) C.int {
		if stats == nil || count == nil {
			return invalid
		}
		loads := e.Loads()
		out := unsafe.Slice(stats, int(min(*count, C.size_t(len(loads)))))
		for i := range out {
			copyOut(&out[i].device_name[0], C.size_t(len(out[i].device_name)), loads[i].Device)
			out[i].inflight_bytes, out[i].ewma_bandwidth_bps = C.uint64_t(loads[i].Inflight), C.double(loads[i].Speed)
		}
		*count = C.size_t(len(loads))
		return 0
	})
}

//export installTransport
func installTransport(engine C.transfer_engine_t, proto *C.te_const_char, args *unsafe.Pointer) C.transport_t {
	installed := result(engine, "installTransport", func(e *upstream.Engine) error {
		matrix := ""
		if args != nil && *args != nil {
			matrix = C.GoString((*C.char)(*args))
		}
		return e.Install(cString(proto), matrix)
	})
	if installed != 0 {
		return nil
	}
	return C.transport_t(engine)
}

//export uninstallTransport
func uninstallTransport(engine C.transfer_engine_t, proto *C.te_const_char) C.int {
	return result(engine, "uninstallTransport", func(e *upstream.Engine) error { return e.Uninstall(cString(proto)) })
}

//export registerLocalMemory
func registerLocalMemory(engine C.transfer_engine_t, addr unsafe.Pointer, size C.size_t, location *C.te_const_char, remote C.int) C.int {
	return register(engine, []C.buffer_entry_t{{addr: addr, length: size}}, location, remote != 0)
}

//export registerLocalMemoryBatch
func registerLocalMemoryBatch(engine C.transfer_engine_t, list *C.buffer_entry_t, n C.size_t, location *C.te_const_char) C.int {
	entries, ok := elements(list, n)
	if !ok {
		return invalid
	}
	return register(engine, entries, location, true)
}

func register(engine C.transfer_engine_t, list []C.buffer_entry_t, location *C.te_const_char, remote bool) C.int {
	return result(engine, "registerLocalMemory", func(e *upstream.Engine) error {
		memory, addrs := make([][]byte, len(list)), make([]uint64, len(list))
		for i, b := range list {
			addrs[i] = uint64(uintptr(b.addr))
			var ok bool
			if memory[i], ok = store.At(addrs[i], uint64(b.length)); !ok {
				return errs.New(errs.InvalidParams, "memory", "there is none of %d bytes at %#x", uint64(b.length), addrs[i])
			}
		}
		return e.Register(memory, addrs, cString(location), remote)
	})
}

//export unregisterLocalMemory
func unregisterLocalMemory(engine C.transfer_engine_t, addr unsafe.Pointer) C.int {
	return unregister(engine, []unsafe.Pointer{addr})
}

//export unregisterLocalMemoryBatch
func unregisterLocalMemoryBatch(engine C.transfer_engine_t, list *unsafe.Pointer, n C.size_t) C.int {
	pointers, ok := elements(list, n)
	if !ok {
		return invalid
	}
	return unregister(engine, pointers)
}

func unregister(engine C.transfer_engine_t, pointers []unsafe.Pointer) C.int {
	addrs := make([]uint64, len(pointers))
	for i, p := range pointers {
		addrs[i] = uint64(uintptr(p))
	}
	return result(engine, "unregisterLocalMemory", func(e *upstream.Engine) error { return e.Unregister(addrs) })
}

// maxBatch bounds the requests of a batch and the elements of a list.
const maxBatch = 1 << 30

// elements returns a list of C. It returns false for NULL with a length, and for a length above
// maxBatch.
func elements[T any](list *T, n C.size_t) ([]T, bool) {
	if n > maxBatch || list == nil && n > 0 {
		return nil, false
	}
	return unsafe.Slice(list, int(n)), true
}

//export openSegment
func openSegment(engine C.transfer_engine_t, name *C.te_const_char) C.int32_t {
	return open(engine, name, (*upstream.Engine).Open)
}

//export openSegmentNoCache
func openSegmentNoCache(engine C.transfer_engine_t, name *C.te_const_char) C.int32_t {
	return open(engine, name, (*upstream.Engine).OpenFresh)
}

func open(engine C.transfer_engine_t, name *C.te_const_char, how func(*upstream.Engine, string) (int32, error)) C.int32_t {
	var id int32
	if code := result(engine, "openSegment", func(e *upstream.Engine) (err error) {
		id, err = how(e, cString(name))
		return err
	}); code != 0 {
		return code
	}
	return C.int32_t(id)
}

//export closeSegment
func closeSegment(engine C.transfer_engine_t, _ C.int32_t) C.int { return known(engine) }

//export warmupEfaSegment
func warmupEfaSegment(engine C.transfer_engine_t, _ *C.te_const_char) C.int { return known(engine) }

// known returns 0 if the engine exists.
func known(engine C.transfer_engine_t) C.int {
	return withClassic(engine, invalid, func(*upstream.Engine) C.int { return 0 })
}

//export removeLocalSegment
func removeLocalSegment(engine C.transfer_engine_t, name *C.te_const_char) C.int {
	return result(engine, "removeLocalSegment", func(e *upstream.Engine) error { return e.Remove(cString(name)) })
}

//export syncSegmentCache
func syncSegmentCache(engine C.transfer_engine_t) C.int {
	return result(engine, "syncSegmentCache", func(e *upstream.Engine) error { return e.Sync("") })
}

//export allocateBatchID
func allocateBatchID(engine C.transfer_engine_t, n C.size_t) C.uint64_t {
	var id uint64
	if result(engine, "allocateBatchID", func(e *upstream.Engine) (err error) {
		id, err = e.NewBatch(int(min(n, maxBatch)))
		return err
	}) != 0 {
		return C.INVALID_BATCH
	}
	return C.uint64_t(id)
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

//export getNotifsFromEngine
func getNotifsFromEngine(engine C.transfer_engine_t, size *C.int) *C.notify_msg_t {
	if size == nil {
		return nil
	}
	*size = 0
	list := withClassic(engine, nil, takeNotices)
	if len(list) == 0 {
		return nil
	}
	first := C.te_messages(C.size_t(len(list)))
	if first == nil {
		return nil
	}
	out := unsafe.Slice(first, len(list))
	for i, n := range list {
		out[i] = C.notify_msg_t{name: cstring(n.Name), msg: cstring(n.Message)}
	}
	*size = C.int(len(list))
	return first
}

func takeNotices(e *upstream.Engine) []engine.Notice {
	list, err := e.Notices()
	if err != nil {
		e.Log("getNotifsFromEngine", err)
	}
	return list
}

//export freeNotifsMsgBuf
func freeNotifsMsgBuf(list *C.notify_msg_t, size C.int) C.int {
	if list == nil {
		return 0
	}
	for _, n := range unsafe.Slice(list, int(max(size, 0))) {
		C.free(unsafe.Pointer(n.name))
		C.free(unsafe.Pointer(n.msg))
	}
	C.free(unsafe.Pointer(list))
	return 0
}

//export genNotifyInEngine
func genNotifyInEngine(engine C.transfer_engine_t, target C.uint64_t, notify C.notify_msg_t) C.int {
	return result(engine, "genNotifyInEngine", func(e *upstream.Engine) error { return e.Notify(uint64(target), *notice(notify)) })
}
