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

// classicUse finds the engine of the C ABI behind a pointer.
func classicUse(e C.transfer_engine_t) handles.Use[*upstream.Engine] {
	return handles.Begin[*upstream.Engine](&objects, int64(C.te_number(e)))
}

// invalid is what a call answers that has no engine.
const invalid = -upstream.InvalidArgument

// cString copies a text of C; NULL is empty.
func cString(p *C.te_const_char) string { return C.GoString((*C.char)(unsafe.Pointer(p))) }

// result is the number of an error of a call that is not about transfers.
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
	u := classicUse(engine)
	defer u.Done()
	if !u.OK {
		return invalid
	}
	return result(u.Value, "discoverTopology", u.Value.Discover())
}

//export getLocalIpAndPort
func getLocalIpAndPort(engine C.transfer_engine_t, buf *C.char, size C.size_t) C.int {
	u := classicUse(engine)
	defer u.Done()
	if !u.OK || buf == nil || size == 0 {
		return invalid
	}
	name, err := u.Value.Name()
	if err == nil {
		copyOut(buf, size, name)
	}
	return result(u.Value, "getLocalIpAndPort", err)
}

// copyOut writes text with a 0 behind it, cut off where there is no room.
func copyOut(buf *C.char, size C.size_t, text string) {
	out := unsafe.Slice((*byte)(unsafe.Pointer(buf)), int(size))
	out[copy(out[:len(out)-1], text)] = 0
}

//export installTransport
func installTransport(engine C.transfer_engine_t, proto *C.te_const_char, args *unsafe.Pointer) C.transport_t {
	u := classicUse(engine)
	defer u.Done()
	if !u.OK {
		return nil
	}
	matrix := ""
	if args != nil && *args != nil {
		matrix = C.GoString((*C.char)(*args))
	}
	if err := u.Value.Install(cString(proto), matrix); err != nil {
		u.Value.Log("installTransport", err)
		return nil
	}
	return C.transport_t(engine)
}

//export uninstallTransport
func uninstallTransport(engine C.transfer_engine_t, proto *C.te_const_char) C.int {
	u := classicUse(engine)
	defer u.Done()
	if !u.OK {
		return invalid
	}
	return result(u.Value, "uninstallTransport", u.Value.Uninstall(cString(proto)))
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

// elements is a list of C; false for NULL with a length, and for a length that no list has.
func elements[T any](list *T, n C.size_t) ([]T, bool) {
	if n > maxBatch || list == nil && n > 0 {
		return nil, false
	}
	return unsafe.Slice(list, int(n)), true
}

func register(engine C.transfer_engine_t, list []C.buffer_entry_t, location string, remote bool) C.int {
	u := classicUse(engine)
	defer u.Done()
	if !u.OK {
		return invalid
	}
	memory, addrs := make([][]byte, len(list)), make([]uint64, len(list))
	for i, b := range list {
		addrs[i] = uint64(uintptr(b.addr))
		var ok bool
		if memory[i], ok = store.At(addrs[i], uint64(b.length)); !ok {
			return result(u.Value, "registerLocalMemory", errs.New(errs.InvalidParams, "memory", "there is none of %d bytes at %#x", uint64(b.length), addrs[i]))
		}
	}
	return result(u.Value, "registerLocalMemory", u.Value.Register(memory, addrs, location, remote))
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
	u := classicUse(engine)
	defer u.Done()
	if !u.OK {
		return invalid
	}
	return result(u.Value, "unregisterLocalMemory", u.Value.Unregister(addrs))
}
