package main

/*
#include <stdlib.h>
#include <string.h>
#include "cgo.h"

// copy_text copies a text and ends it with a 0; NULL without memory.
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
	"unsafe"

	"github.com/mooncake-go/mooncake/core/bindings/handles"
	"github.com/mooncake-go/mooncake/core/bindings/store"
)

func main() {}

// object is what a handle of a store or an engine stands for.
type object interface {
	// Shut ends it, bounded. Repeatable.
	Shut()
	// LastError is why the last call of this thread failed, empty where it succeeded.
	LastError() string
}

// caller is an object that keeps for each thread why its last call failed.
type caller interface {
	// Begin notes that a call of this thread begins.
	Begin()
}

// begin notes a call with the T that h stands for.
func begin[T caller](h int64) handles.Use[T] {
	u := handles.Begin[T](&objects, h)
	if u.OK {
		u.Value.Begin()
	}
	return u
}

// closeWait is how long the end of a handle waits for calls under way.
const closeWait = 30 * time.Second

var (
	// objects are the stores and engines, and buffers what was lent. C passes nothing along
	// but numbers, so these belong to the process.
	objects handles.Table
	buffers handles.Table
)

//export mck_abi
func mck_abi() C.uint32_t { return C.MCK_ABI }

//export mck_blob_free
func mck_blob_free(b C.mck_blob) { C.free(unsafe.Pointer(b.data)) }

//export mck_close_all
func mck_close_all() {
	var all sync.WaitGroup
	for _, h := range objects.Handles() {
		all.Go(func() { free[object](h) })
	}
	all.Wait()
}

// interrupt ends a setup in progress: the end of a handle does not wait for a master.
func interrupt(h int64) {
	u := handles.Begin[*store.Store](&objects, h)
	defer u.Done()
	if u.OK {
		u.Value.Interrupt()
	}
}

// free ends a handle and what it stands for.
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

// cstring copies text into memory of C that ends with a 0; nil where there is none.
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
