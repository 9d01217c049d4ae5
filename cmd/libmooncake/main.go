// Command libmooncake is a C shared library (-buildmode=c-shared) with the store and the transfer
// engine. Loading it starts the Go runtime and nothing else.
//
// It has four APIs: the program mooncake (program.go, launcher), the calls of the Python extension
// (include/mooncake_native.h, mck_*), the C ABI of the store (include/store_c.h) and that of the
// transfer engine (transfer_engine_c.h). The files here convert arguments and results between C
// and Go. The calls are implemented in core/bindings/store, core/bindings/engine and
// core/bindings/upstream, which use no cgo.
//
// Except for the program, the library handles no signal and does not fork, unless a program asks
// it to end engines at a signal (enableGracefulShutdown). A child of a process that has loaded the
// library cannot use it.
package main

/*
#include <stdlib.h>
#include <string.h>
#include "cgo.h"

// copy_text copies a text and ends it with a 0. It returns NULL if there is no memory.
static inline char *copy_text(_GoString_ text) {
	size_t n = _GoStringLen(text);
	char *copy = malloc(n + 1);
	if (copy != NULL) {
		memcpy(copy, _GoStringPtr(text), n);
		copy[n] = 0;
	}
	return copy;
}
*/
import "C"

import (
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/bindings/handles"
	"github.com/mooncake-go/mooncake/core/bindings/store"
)

func main() {}

// object is a store or an engine.
type object interface {
	// Shut ends the object, in bounded time. It may be called again.
	Shut()
	// LastError returns why the last call of this thread failed. It is empty after a success.
	LastError() string
}

// caller is an object that records the last error of each thread.
type caller interface {
	// Begin records that a call of this thread begins.
	Begin()
}

// with calls do with the T that h stands for, and returns missing if there is none. The handle
// stays valid until do returns.
func with[T caller, R any](h int64, missing R, do func(T) R) R {
	u := handles.Begin[T](&objects, h)
	defer u.Done()
	if !u.OK {
		return missing
	}
	u.Value.Begin()
	return do(u.Value)
}

// closeWait bounds the wait for calls in progress at the end of a handle.
const closeWait = 30 * time.Second

var (
	// objects are the stores and engines, and buffers the objects that were lent. C passes numbers
	// only, so both tables belong to the process.
	objects handles.Table
	buffers handles.Table
)

//export mck_abi
func mck_abi() C.uint32_t { return C.MCK_ABI }

//export mck_close_all
func mck_close_all() {
	var all sync.WaitGroup
	for _, h := range objects.Handles() {
		all.Go(func() { free[object](h) })
	}
	all.Wait()
}

// interrupt ends a setup in progress, so that the end of a handle does not wait for a master.
func interrupt(h int64) {
	u := handles.Begin[*store.Store](&objects, h)
	defer u.Done()
	if u.OK {
		u.Value.Interrupt()
	}
}

// free ends a handle and its object.
func free[T object](h int64) {
	interrupt(h)
	if v, _, ok := handles.Take[T](&objects, h, closeWait); ok {
		v.Shut()
	}
}

//export mck_last_error
func mck_last_error(h C.mck_handle) C.mck_blob {
	if h == 0 {
		return blob(hostMemory.LastError())
	}
	u := handles.Begin[object](&objects, int64(h))
	defer u.Done()
	if !u.OK {
		return C.mck_blob{}
	}
	return blob(u.Value.LastError())
}

// cstring copies text and a final 0 into memory of C. It returns nil if there is no memory.
func cstring(text string) *C.char { return C.copy_text(text) }

// blob copies text into memory of C.
func blob(text string) C.mck_blob {
	if text == "" {
		return C.mck_blob{}
	}
	data := cstring(text)
	if data == nil {
		return C.mck_blob{}
	}
	return C.mck_blob{data: data, size: C.uint64_t(len(text))}
}
