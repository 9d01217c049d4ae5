package get

import (
	"time"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/client/internal/lease"
	"github.com/mooncake-go/mooncake/core/store/internal/fragment"
)

// Owner says who provides the memory of a read.
type Owner uint8

// The owners.
const (
	// Caller: the caller provides it.
	Caller Owner = iota
	// Heap: the client allocates it.
	Heap
	// Lent: the client takes it from its buffers, or allocates it if they have no space.
	Lent
)

// Item is one object to read.
type Item struct {
	Key   model.Key
	Owner Owner
	// Ranges returns the fragments to read of an object of a size. It is nil for a read of the whole
	// object.
	Ranges func(size uint64) []store.Fragment
	// Err is why the object was not read.
	Err error

	uncached bool              // do not use the hot cache
	mem      []byte            // memory of the client
	buffer   *Buffer           // holds mem, with Lent
	one      [1]store.Fragment // the backing array of fragments for a read into one fragment
	want1    [1]store.Fragment // the backing array of want
	want     []store.Fragment  // the caller's memory

	object    model.Object
	plain     uint64           // size of the value; that of the object without a seal
	asked     int              // bytes that the caller reads
	trailer   []byte           // of a sealed object, the last of the fragments; nil where nothing is to be opened
	forged    bool             // a replica could not be opened
	raw       bool             // the object itself is to be read, not its value
	fragments []store.Fragment // what to read of the object
	whole     bool             // fragments are the whole object, in order
	cover     cover            // of ranges that are verified
	expires   time.Time        // when its lease ends, by boottime.Time
	lease     *lease.View      // nil if the table does not renew the lease
	first     int              // index of its first request
	end       int              // index behind its last request
	checksum  uint32           // of the bytes that arrived, with computed
	computed  bool
	next      int    // index of the replica to try
	deferred  int    // replicas at the end whose nodes were silent, to be retried
	last      error  // why the replica before failed
	steps     []step // in which the replica to try is read, if that is on a tier
	left      int    // of steps: those that have not arrived
	late      bool   // what was staged of the replica to try outlived its time, and nothing arrived since
	twice     bool   // the replica to try had wrong bytes once
	damaged   int    // replicas that had wrong bytes twice
	ok        bool
}

// Into sets the caller's memory, one fragment after the other. It allocates nothing for one.
func (it *Item) Into(dst ...[]byte) { it.want, _ = fragment.Chain(it.want1[:], dst) }

// replica returns the replica to try.
func (it *Item) replica() *model.Replica { return &it.object.Replicas[it.next] }

// onTier reports whether the replica to try is on a tier.
func onTier(it *Item) bool { return it.replica().OnTier() }

// hasty reports whether there is a replica to go on with if the node of the one to try is silent. One
// that was silent before has to be waited for.
func (it *Item) hasty() bool {
	n := len(it.object.Replicas)
	return it.next+1 < n && it.next < n-it.deferred
}

// deferReplica moves the replica to try behind the others.
func (it *Item) deferReplica() {
	all := it.object.Replicas[it.next:]
	silent := all[0]
	copy(all, all[1:])
	all[len(all)-1] = silent
	it.deferred++
	it.twice = false
	it.restart()
}

// Size returns the size of an object that was read, 0 after an error.
func (it *Item) Size() int {
	if !it.ok {
		return 0
	}
	return int(it.plain)
}

// Read returns the number of bytes of the ranges that were read, 0 after an error.
func (it *Item) Read() int {
	if it.Err != nil {
		return 0
	}
	return it.asked
}

// Bytes returns an object that was read into memory of the client, nil after an error.
func (it *Item) Bytes() []byte {
	if !it.ok {
		return nil
	}
	return it.mem[:it.plain]
}

// Buffer holds an object that was read, until it is released.
type Buffer struct {
	mem  []byte
	lent *memory.Buffer // nil for memory from the heap
}

// Bytes returns the object; nil after Release.
func (b *Buffer) Bytes() []byte { return b.mem }

// Release frees the memory, which must not be used any more. Releasing twice, or nil, does nothing.
func (b *Buffer) Release() {
	if b == nil {
		return
	}
	b.lent.Release()
	b.mem, b.lent = nil, nil
}

// Lent returns an object that was read with Lent.
func (it *Item) Lent() (store.Lent, error) {
	switch {
	case !it.ok:
		it.buffer.Release()
		return nil, it.Err
	case it.buffer != nil:
		return it.buffer, nil
	}
	return &Buffer{mem: it.Bytes()}, nil
}

// replaceMemory gives the item other memory in place of memory of the client that may still be
// touched, and is never used again.
func (it *Item) replaceMemory() {
	it.buffer = nil
	it.mem = make([]byte, it.plain)
	if it.trailer != nil {
		it.trailer = make([]byte, len(it.trailer))
	}
	it.one[0] = store.Fragment{Mem: it.mem}
	it.fragments = it.one[:]
	if it.trailer != nil {
		it.addTrailer(make([]byte, len(it.trailer)))
	}
	it.restart()
}

// addTrailer has the trailer of a sealed object read too.
func (it *Item) addTrailer(trailer []byte) {
	it.trailer = trailer
	it.fragments = append(it.fragments, store.Fragment{Offset: it.plain, Mem: trailer})
}
