package slotindex

import (
	"math/bits"
	"slices"
)

// maxLoad is how many entries there are for each bucket before an index grows, times 2.
const maxLoad = 27

// Index finds numbers by hashes. The zero value is empty and ready. It is for one goroutine
// at a time. It keeps the memory of its largest number of entries.
type Index struct {
	buckets []bucket
	count   uint32
	mask    uint32 // the bits of a slot that hold the number
}

// Len is the number of entries.
func (x *Index) Len() int { return int(x.count) }

// Find returns the number that was added with this hash and of which is says that it is
// the one, 0 where there is none. Only the lower 32 bits of a hash count.
func (x *Index) Find(hash uint64, is func(number uint32) bool) uint32 {
	want, at, first := x.slot(hash, 0), x.home(hash), start(hash)
	for range x.buckets {
		b := &x.buckets[at]
		if n := b.find(first, want, x.mask, is); n != 0 {
			return n
		}
		if b.passed() == 0 {
			break
		}
		at = x.next(at)
	}
	return 0
}

// Add adds a number that is not in the index; it must not be 0. Low numbers leave more bits for
// hashes. hashOf returns the hash of a number in the index; Add calls it when the index grows.
func (x *Index) Add(hash uint64, number uint32, hashOf func(number uint32) uint64) {
	if number > x.mask {
		x.widen(1<<bits.Len32(number) - 1)
	}
	if 2*uint64(x.count+1) > maxLoad*uint64(len(x.buckets)) {
		x.grow(hashOf)
	}
	x.put(hash, number)
	x.count++
}

// Remove takes out a number that was added with this hash. It panics where it is not there.
func (x *Index) Remove(hash uint64, number uint32) {
	slot, at, first := x.slot(hash, number), x.home(hash), start(hash)
	for range x.buckets {
		b := &x.buckets[at]
		if b.replace(first, slot, 0) {
			x.count--
			return
		}
		b.pass(-1)
		at = x.next(at)
	}
	panic("slotindex: asked to remove a number that is not there, or was added with another hash")
}

// put adds a number. The index is not full.
func (x *Index) put(hash uint64, number uint32) {
	slot, at, first := x.slot(hash, number), x.home(hash), start(hash)
	for !x.buckets[at].replace(first, 0, slot) {
		x.buckets[at].pass(1)
		at = x.next(at)
	}
}

// slot returns the slot of a number: the number and, above it, as many bits of the hash as fit,
// beginning with those that matter least to home.
func (x *Index) slot(hash uint64, number uint32) uint32 {
	return bits.RotateLeft32(uint32(hash), 16)&^x.mask | number
}

// home returns the bucket of a hash.
func (x *Index) home(hash uint64) uint32 {
	return uint32(uint64(uint32(hash)) * uint64(len(x.buckets)) >> 32)
}

func (x *Index) next(at uint32) uint32 {
	if at++; int(at) < len(x.buckets) {
		return at
	}
	return 0
}

// Reserve makes space for n more entries, so that adding them never grows the index. hashOf is that of Add.
func (x *Index) Reserve(n int, hashOf func(number uint32) uint64) {
	if need := (2*(uint64(x.count)+uint64(max(n, 0))) + maxLoad - 1) / maxLoad; need > uint64(len(x.buckets)) {
		x.resize(int(need), hashOf)
	}
}

// grow makes half as many buckets more, and those that the allocator has to give anyway.
func (x *Index) grow(hashOf func(number uint32) uint64) {
	x.resize(max(len(x.buckets)*3/2, len(x.buckets)+1), hashOf)
}

// resize makes at least n buckets.
func (x *Index) resize(n int, hashOf func(number uint32) uint64) {
	old := *x
	buckets := slices.Grow([]bucket(nil), n)
	x.buckets = buckets[:cap(buckets)]
	clear(x.buckets)
	// The keys are all over the memory: asking for several in a row waits for them at once.
	var numbers [bucketSlots]uint32
	var hashes [bucketSlots]uint64
	for i := range old.buckets {
		n := 0
		old.buckets[i].each(func(slot uint32) uint32 {
			numbers[n] = slot & x.mask
			n++
			return slot
		})
		for j, number := range numbers[:n] {
			hashes[j] = hashOf(number)
		}
		for j, number := range numbers[:n] {
			x.put(hashes[j], number)
		}
	}
}

// each calls do with every number.
func (x *Index) each(do func(number uint32)) {
	for i := range x.buckets {
		x.buckets[i].each(func(slot uint32) uint32 {
			do(slot & x.mask)
			return slot
		})
	}
}

// widen makes the slots hold longer numbers. It drops the lowest bits of the hashes.
func (x *Index) widen(mask uint32) {
	gone := mask ^ x.mask
	for i := range x.buckets {
		x.buckets[i].each(func(slot uint32) uint32 { return slot &^ gone })
	}
	x.mask = mask
}
