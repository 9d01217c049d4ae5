package main

/*
#include "classic.h"
*/
import "C"

import (
	"unsafe"

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

// cString copies a text of C. NULL is the empty text.
func cString(p *C.te_const_char) string { return C.GoString((*C.char)(unsafe.Pointer(p))) }

// result logs an error and returns its number, for calls that are not about transfers.
func result(e *upstream.Engine, call string, err error) C.int {
	if err != nil {
		e.Log(call, err)
	}
	return C.int(upstream.Result(err))
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

//export discoverTopology
func discoverTopology(engine C.transfer_engine_t) C.int {
	return withClassic(engine, invalid, func(e *upstream.Engine) C.int { return result(e, "discoverTopology", e.Discover()) })
}

//export getLocalIpAndPort
func getLocalIpAndPort(engine C.transfer_engine_t, buf *C.char, size C.size_t) C.int {
	return withClassic(engine, invalid, func(e *upstream.Engine) C.int {
		if buf == nil || size == 0 {
			return invalid
		}
		name, err := e.Name()
		if err == nil {
			copyOut(buf, size, name)
		}
		return result(e, "getLocalIpAndPort", err)
	})
}

// copyOut writes text and a final 0, and truncates text to the size of the buffer.
func copyOut(buf *C.char, size C.size_t, text string) {
	out := unsafe.Slice((*byte)(unsafe.Pointer(buf)), int(size))
	out[copy(out[:len(out)-1], text)] = 0
}

//export installTransport
func installTransport(engine C.transfer_engine_t, proto *C.te_const_char, args *unsafe.Pointer) C.transport_t {
	return withClassic(engine, nil, func(e *upstream.Engine) C.transport_t {
		matrix := ""
		if args != nil && *args != nil {
			matrix = C.GoString((*C.char)(*args))
		}
		if err := e.Install(cString(proto), matrix); err != nil {
			e.Log("installTransport", err)
			return nil
		}
		return C.transport_t(engine)
	})
}

//export uninstallTransport
func uninstallTransport(engine C.transfer_engine_t, proto *C.te_const_char) C.int {
	return withClassic(engine, invalid, func(e *upstream.Engine) C.int { return result(e, "uninstallTransport", e.Uninstall(cString(proto))) })
}

//export registerLocalMemory
func registerLocalMemory(engine C.transfer_engine_t, addr unsafe.Pointer, size C.size_t, location *C.te_const_char, remote C.int) C.int {
	entry := C.buffer_entry_t{addr: addr, length: size}
	return register(engine, []C.buffer_entry_t{entry}, cString(location), remote != 0)
}

//export registerLocalMemoryBatch
func registerLocalMemoryBatch(engine C.transfer_engine_t, list *C.buffer_entry_t, n C.size_t, location *C.te_const_char) C.int {
	entries, ok := elements(list, n)
	if !ok {
		return invalid
	}
	return register(engine, entries, cString(location), true)
}

// elements returns a list of C. It returns false for NULL with a length, and for a length above
// maxBatch.
func elements[T any](list *T, n C.size_t) ([]T, bool) {
	if n > maxBatch || list == nil && n > 0 {
		return nil, false
	}
	return unsafe.Slice(list, int(n)), true
}

func register(engine C.transfer_engine_t, list []C.buffer_entry_t, location string, remote bool) C.int {
	return withClassic(engine, invalid, func(e *upstream.Engine) C.int {
		memory, addrs := make([][]byte, len(list)), make([]uint64, len(list))
		for i, b := range list {
			addrs[i] = uint64(uintptr(b.addr))
			var ok bool
			if memory[i], ok = store.At(addrs[i], uint64(b.length)); !ok {
				return result(e, "registerLocalMemory", errs.New(errs.InvalidParams, "memory", "there is none of %d bytes at %#x", uint64(b.length), addrs[i]))
			}
		}
		return result(e, "registerLocalMemory", e.Register(memory, addrs, location, remote))
	})
}

//export unregisterLocalMemory
func unregisterLocalMemory(engine C.transfer_engine_t, addr unsafe.Pointer) C.int {
	return unregister(engine, []uint64{uint64(uintptr(addr))})
}

//export unregisterLocalMemoryBatch
func unregisterLocalMemoryBatch(engine C.transfer_engine_t, list *unsafe.Pointer, n C.size_t) C.int {
	pointers, ok := elements(list, n)
	if !ok {
		return invalid
	}
	addrs := make([]uint64, len(pointers))
	for i, p := range pointers {
		addrs[i] = uint64(uintptr(p))
	}
	return unregister(engine, addrs)
}

func unregister(engine C.transfer_engine_t, addrs []uint64) C.int {
	return withClassic(engine, invalid, func(e *upstream.Engine) C.int { return result(e, "unregisterLocalMemory", e.Unregister(addrs)) })
}
