package slotindex

import "math/bits"

// bucket is one cache line with two slots in a word; an unused slot is 0. In place of its first
// slot it counts the entries that are in later buckets because it was full. A search ends if there
// are none.
type bucket [bucketWords]uint64

const (
	bucketWords = 8
	bucketSlots = 2*bucketWords - 1
)

func (b *bucket) passed() uint32 { return uint32(b[0]) }

// pass changes the count of entries in later buckets, which stays at least 0.
func (b *bucket) pass(by int32) { b[0] = b[0]&^lower | uint64(uint32(b[0])+uint32(by)) }

const (
	lower = 1<<32 - 1
	each  = 1<<32 | 1 // one in each slot of a word
	tops  = each << 31
)

// equal sets the highest bit of each slot of a word that equals want in the bits of keep. want and
// keep hold their value twice. If equal marks the lower slot it may mark the upper one wrongly.
func equal(word, want, keep uint64) uint64 {
	differ := (word ^ want) & keep
	return (differ - each) &^ differ & tops
}

// start returns the word of a bucket at which the search for a hash begins, so that most searches
// end at once. It uses other bits than those that choose the bucket.
func start(hash uint64) uint32 { return uint32(hash) % bucketWords }

// find returns the number in a slot that equals want in all bits but those of mask, which hold the
// number, and for which is returns true. It returns 0 if there is no such slot.
func (b *bucket) find(first, want, mask uint32, is func(number uint32) bool) uint32 {
	want2, keep := uint64(want)*each, ^(uint64(mask) * each)
	for i := range uint32(bucketWords) {
		at := (first + i) % bucketWords
		for marks := equal(b[at], want2, keep); marks != 0; marks &= marks - 1 {
			shift := uint32(bits.TrailingZeros64(marks)) &^ 31
			slot := uint32(b[at] >> shift)
			if (slot^want)&^mask == 0 && slot&mask != 0 && at|shift != 0 && is(slot&mask) {
				return slot & mask
			}
		}
	}
	return 0
}

// replace overwrites a slot that equals old. It returns false if there is none.
func (b *bucket) replace(first, old, slot uint32) bool {
	old2 := uint64(old) * each
	for i := range uint32(bucketWords) {
		at := (first + i) % bucketWords
		for marks := equal(b[at], old2, ^uint64(0)); marks != 0; marks &= marks - 1 {
			shift := uint32(bits.TrailingZeros64(marks)) &^ 31
			if uint32(b[at]>>shift) == old && at|shift != 0 {
				b[at] ^= uint64(old^slot) << shift
				return true
			}
		}
	}
	return false
}

// each replaces each used slot with what do returns for it.
func (b *bucket) each(do func(slot uint32) uint32) {
	for i := 1; i <= bucketSlots; i++ {
		shift := uint(i) % 2 * 32
		if slot := uint32(b[i/2] >> shift); slot != 0 {
			b[i/2] ^= uint64(slot^do(slot)) << shift
		}
	}
}
