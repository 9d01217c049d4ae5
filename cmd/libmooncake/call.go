package main

import (
	"github.com/mooncake-go/mooncake/core/bindings/store"
	"github.com/mooncake-go/mooncake/sdk/x/busypoll"
)

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
