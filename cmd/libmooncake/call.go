package main

import (
	"github.com/mooncake-go/mooncake/core/bindings/store"
	"github.com/mooncake-go/mooncake/sdk/x/busypoll"
)

// fromC is called before the first wait: threads of C wait in this process.
func fromC() { busypoll.KeepProcessor() }

// total is how many bytes there are in pieces.
func total(sizes []uint64) (n uint64) {
	for _, s := range sizes {
		n += s
	}
	return n
}

// inPlace is how many bytes are moved by the goroutine that C called.
const inPlace = 4 << 20

// call runs what moves objects to its end. The goroutine that C called is bound to C's thread:
// each time it sleeps, for a peer or another goroutine, two threads have to change places. What
// moves few bytes hardly sleeps, since waits for an answer poll. More is done on a goroutine of
// its own, so that the thread sleeps once; work gets the store for which errors are the caller's.
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
