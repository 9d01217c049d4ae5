package drivers

import (
	"bytes"
	"fmt"

	"golang.org/x/sys/unix"
)

// AreaBytes is the memory of one thread, and the most that a call moves.
const AreaBytes = 16 << 20

// MaxThreads is how many areas there are besides the one that objects are put from.
const MaxThreads = 64

// area is memory for objects: first what sets are put from, then that of each thread. Pages that
// nobody uses cost nothing.
type area []byte

// newArea maps it. The first part has in each 4 KiB their number, as in driver.py: what one driver
// puts the other can check.
func newArea() (area, error) {
	a, err := unix.Mmap(-1, 0, (1+MaxThreads)*AreaBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("memory of the driver: %w", err)
	}
	for i := range AreaBytes / 4096 {
		page := a[i*4096 : (i+1)*4096]
		page[0] = byte(i)
		for n := 1; n < len(page); n *= 2 {
			copy(page[n:], page[:n])
		}
	}
	return a, nil
}

// source is the object of a size that sets consist of.
func (a area) source(size int) []byte { return a[:size:size] }

// of returns the memory of a thread for a call.
func (a area) of(thread int, j Job) ([]byte, error) {
	if need := j.Size * max(1, j.Count); j.Size < 1 || need > AreaBytes || thread >= MaxThreads {
		return nil, fmt.Errorf("%d objects of %d bytes by thread %d; there are %d threads with %d bytes each", j.Count, j.Size, thread, MaxThreads, AreaBytes)
	}
	from := (1 + thread) * AreaBytes
	return a[from : from+j.Size*max(1, j.Count)], nil
}

// check reports whether every object in mem is one of a set.
func (a area) check(mem []byte, size int) error {
	for at := 0; at < len(mem); at += size {
		if !bytes.Equal(mem[at:at+size], a.source(size)) {
			return fmt.Errorf("an object of %d bytes came back with other bytes than were put", size)
		}
	}
	return nil
}
