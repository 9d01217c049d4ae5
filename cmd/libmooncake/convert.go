package main

/*
#include "cgo.h"

extern char **environ;
*/
import "C"

import (
	"unsafe"

	"github.com/mooncake-go/mooncake/core/bindings/store"
	"github.com/mooncake-go/mooncake/sdk/x/busypoll"
)

// view returns n elements in memory of C. They are valid until the call returns.
func view[T, U any](p *U, n C.uint64_t) []T { return unsafe.Slice((*T)(unsafe.Pointer(p)), int(n)) }

// text copies one text.
func text(p *C.mck_const_char, n C.uint64_t) string {
	return string(unsafe.Slice((*byte)(unsafe.Pointer(p)), int(n)))
}

// texts copies n texts into one allocation.
func texts(t C.mck_texts) []string {
	if t.n == 0 {
		return nil
	}
	ends := view[uint64](t.ends, t.n)
	all := string(unsafe.Slice((*byte)(unsafe.Pointer(t.data)), int(ends[len(ends)-1])))
	out, begin := make([]string, len(ends)), uint64(0)
	for i, end := range ends {
		out[i], begin = all[begin:end], end
	}
	return out
}

// maxEnviron bounds the variables that are read.
const maxEnviron = 1 << 16

// environ returns the present environment. os.Environ has the one from the time at which the
// library was loaded, and the host may have changed it since.
func environ() []string {
	var out []string
	at := C.environ
	for at != nil && *at != nil && len(out) < maxEnviron {
		out = append(out, C.GoString(*at))
		at = (**C.char)(unsafe.Add(unsafe.Pointer(at), unsafe.Sizeof(*at)))
	}
	return out
}

// fromC prepares the process for threads of C that wait in it. It runs before the first wait.
func fromC() { busypoll.KeepProcessor() }

// total returns the sum of sizes.
func total(sizes []uint64) (n uint64) {
	for _, s := range sizes {
		n += s
	}
	return n
}

// inPlace is the most bytes that the goroutine that C called moves itself.
const inPlace = 4 << 20

// call runs work, which moves objects, and returns when it ends. The goroutine that C called is
// bound to C's thread: each time it sleeps, for a peer or another goroutine, the scheduler switches
// between two threads. A call that moves few bytes hardly sleeps, since it polls for answers. A
// larger one runs on a goroutine of its own, so that C's thread sleeps once. work gets a store that
// records errors for the calling thread.
func call(t *store.Store, bytes uint64, work func(t *store.Store)) {
	if bytes <= inPlace {
		work(t)
		return
	}
	t = t.OfThisThread()
	done := make(chan struct{})
	go func() {
		defer close(done)
		work(t)
	}()
	<-done
}
