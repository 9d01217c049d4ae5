package shm

import (
	"os"

	"golang.org/x/sys/unix"
)

// touchUnit is the part of a mapping for which it is remembered that it was touched, in
// bytes; smaller chunks just fault.
const touchUnit = 64 << 10

// touched is which units of a mapping were touched. The first touch of a page costs a fault,
// some 0.3 us for 4 KiB; asking the kernel for all pages of a chunk at once a quarter of it.
type touched []uint64

func newTouched(bytes int) touched { return make(touched, bytes/touchUnit/64+1) }

// first reports whether a unit of [from, to) was not touched before, and notes all of them.
func (t touched) first(from, to int) bool {
	if to-from < touchUnit {
		return false
	}
	was := true
	for u := from / touchUnit; u <= (to-1)/touchUnit; u++ {
		bit := uint64(1) << (u % 64)
		was = was && t[u/64]&bit != 0
		t[u/64] |= bit
	}
	return !was
}

// fault brings the pages of [from, to) of a mapping in. Pages that were never written come
// into being by it, as they would by the copy that follows. A kernel before 5.14 refuses, and
// the copy faults.
func fault(mapping []byte, from, to int) {
	from = from / os.Getpagesize() * os.Getpagesize()
	_ = unix.Madvise(mapping[from:to], unix.MADV_POPULATE_READ)
}
