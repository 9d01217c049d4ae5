package slotindex

import (
	"math/bits"
	"slices"
)

// bucketSlots is how many slots a bucket has: with its counter, it is one cache line.
const bucketSlots = 15

// maxLoad is how many entries there are for each bucket before an index grows, times 2.
const maxLoad = 27

// Index finds numbers by hashes. The zero value is empty and ready. It is for one goroutine
// at a time. It keeps the memory of its largest number of entries.
type Index struct {
	buckets []bucket
	count   uint32
	width   uint8 // how many bits of a slot hold the number
}

// bucket holds the used slots in front; an unused slot is 0. An entry that finds its bucket
// full goes to the next one that is not.
type bucket struct {
	// passed counts the entries that lie behind this bucket because it was full. Where
	// there are none, a search ends.
	passed uint32
	slots  [bucketSlots]uint32
}

// Len is the number of entries.
func (x *Index) Len() int { return int(x.count) }

// Find returns the number that was added with this hash and of which is says that it is
// the one, 0 where there is none. Only the lower 32 bits of a hash count.
func (x *Index) Find(hash uint64, is func(number uint32) bool) uint32 {
	width, want := x.width, uint32(hash)<<x.width
	at := x.home(hash)
	for range x.buckets {
		b := &x.buckets[at]
		for _, s := range &b.slots {
			if s == 0 {
				break
			}
			if (s^want)>>width == 0 {
				if n := s &^ (^uint32(0) << width); is(n) {
					return n
				}
			}
		}
		if b.passed == 0 {
			break
		}
		at = x.next(at)
	}
	return 0
}

// Add enters a number that is not there; it must not be 0. Low numbers leave more room for
// hashes. hashOf returns the hash of a number that is there; it is asked when the index
// grows.
func (x *Index) Add(hash uint64, number uint32, hashOf func(number uint32) uint64) {
	if width := uint8(bits.Len32(number)); width > x.width {
		x.widen(width)
	}
	if 2*uint64(x.count+1) > maxLoad*uint64(len(x.buckets)) {
		x.grow(hashOf)
	}
	x.put(hash, number)
	x.count++
}

// Remove takes out a number that was added with this hash. It panics where it is not there.
func (x *Index) Remove(hash uint64, number uint32) {
	slot := uint32(hash)<<x.width | number
	at := x.home(hash)
	for range x.buckets {
		b := &x.buckets[at]
		if i := slices.Index(b.slots[:], slot); i >= 0 {
			last := b.used() - 1
			b.slots[i], b.slots[last] = b.slots[last], 0
			x.count--
			return
		}
		b.passed--
		at = x.next(at)
	}
	panic("slotindex: asked to remove a number that is not there, or was added with another hash")
}

// put enters a number; there is room for it.
func (x *Index) put(hash uint64, number uint32) {
	at := x.home(hash)
	for {
		b := &x.buckets[at]
		if used := b.used(); used < bucketSlots {
			b.slots[used] = uint32(hash)<<x.width | number
			return
		}
		b.passed++
		at = x.next(at)
	}
}

// used returns how many slots of a bucket are.
func (b *bucket) used() int {
	for i, s := range &b.slots {
		if s == 0 {
			return i
		}
	}
	return bucketSlots
}

// home is the bucket of a hash: by its upper bits, as the lower ones are in the slot.
func (x *Index) home(hash uint64) uint32 {
	return uint32(uint64(uint32(hash)) * uint64(len(x.buckets)) >> 32)
}

func (x *Index) next(at uint32) uint32 {
	if at++; int(at) < len(x.buckets) {
		return at
	}
	return 0
}

// grow makes half as many buckets more, and those that the allocator has to give anyway.
func (x *Index) grow(hashOf func(number uint32) uint64) {
	old := *x
	buckets := slices.Grow([]bucket(nil), max(len(old.buckets)*3/2, len(old.buckets)+1))
	x.buckets = buckets[:cap(buckets)]
	clear(x.buckets)
	old.each(func(number uint32) { x.put(hashOf(number), number) })
}

// each calls do with every number.
func (x *Index) each(do func(number uint32)) {
	for i := range x.buckets {
		for _, s := range &x.buckets[i].slots {
			if s == 0 {
				break
			}
			do(s &^ (^uint32(0) << x.width))
		}
	}
}

// widen makes room for longer numbers. It drops the uppermost bits of the hashes.
func (x *Index) widen(width uint8) {
	from := x.width
	x.width = width
	for i := range x.buckets {
		b := &x.buckets[i]
		for j, s := range &b.slots {
			b.slots[j] = s>>from<<width | s&^(^uint32(0)<<from)
		}
	}
}
