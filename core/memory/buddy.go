package memory

import "math/bits"

// buddy divides a range into blocks of minimum<<k bytes. It works on offsets only.
type buddy struct {
	minimum int
	orders  int
	free    [][]int     // by order, offsets
	live    map[int]int // offset of a block in use -> order
	where   map[int]int // offset of a free block -> order
}

// newBuddy manages the first minimum<<(orders-1) times n bytes of size.
func newBuddy(size, minimum int) *buddy {
	orders := bits.Len(uint(size / minimum))
	b := &buddy{minimum: minimum, orders: orders, free: make([][]int, orders), live: map[int]int{}, where: map[int]int{}}
	for off := 0; size-off >= minimum; { // The range as a sum of powers of two.
		k := bits.Len(uint((size-off)/minimum)) - 1
		b.push(off, k)
		off += minimum << k
	}
	return b
}

// order returns the order of the smallest block that holds n bytes.
func (b *buddy) order(n int) int {
	if n <= b.minimum {
		return 0
	}
	return bits.Len(uint((n - 1) / b.minimum))
}

func (b *buddy) push(off, k int) {
	b.free[k] = append(b.free[k], off)
	b.where[off] = k
}

// pop returns a free block of order k; entries that were merged away are skipped.
func (b *buddy) pop(k int) (int, bool) {
	for n := len(b.free[k]); n > 0; n = len(b.free[k]) {
		off := b.free[k][n-1]
		b.free[k] = b.free[k][:n-1]
		if got, ok := b.where[off]; ok && got == k {
			delete(b.where, off)
			return off, true
		}
	}
	return 0, false
}

// take returns the offset of a block of order k, false when none is free.
func (b *buddy) take(k int) (int, bool) {
	for from := k; from < b.orders; from++ {
		off, ok := b.pop(from)
		if !ok {
			continue
		}
		for ; from > k; from-- {
			b.push(off+b.minimum<<(from-1), from-1)
		}
		b.live[off] = k
		return off, true
	}
	return 0, false
}

// give takes a block back and merges it; false for an offset that is not in use.
func (b *buddy) give(off int) bool {
	k, ok := b.live[off]
	if !ok {
		return false
	}
	delete(b.live, off)
	for k+1 < b.orders {
		mate := off ^ b.minimum<<k
		if got, free := b.where[mate]; !free || got != k {
			break
		}
		delete(b.where, mate)
		off, k = min(off, mate), k+1
	}
	b.push(off, k)
	return true
}
