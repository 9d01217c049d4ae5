package store

import (
	"sync"
	"unsafe"

	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// maxFragment bounds the size of memory. A larger size is an error of the caller.
const maxFragment = 1 << 46

// Fragments is the memory of n objects. Object i is in the fragments Rows[i] to Rows[i+1]-1, one
// after the other; with nil Rows each object has one fragment. Fragment j is Sizes[j] bytes at
// Ptrs[j].
type Fragments struct {
	Ptrs, Sizes, Rows []uint64
}

// At returns size bytes at an address outside of Go's memory. ok is false for an invalid address or
// size.
func At(addr, size uint64) (mem []byte, ok bool) {
	if size == 0 {
		return nil, true
	}
	if addr == 0 || size > maxFragment || addr+size < addr {
		return nil, false
	}
	// The conversion goes through memory, since the address is not that of a Go object.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), int(size)), true
}

// row returns the fragments of object i. ok is false if the rows are not in order.
func (p *Fragments) row(i int) (lo, hi uint64, ok bool) {
	if p.Rows == nil {
		return uint64(i), uint64(i) + 1, i < len(p.Ptrs)
	}
	lo, hi = p.Rows[i], p.Rows[i+1]
	return lo, hi, lo <= hi && hi <= uint64(len(p.Ptrs))
}

// check returns an error if p cannot be the memory of n objects.
func (p *Fragments) check(n int) error {
	switch {
	case len(p.Ptrs) != len(p.Sizes):
		return errs.New(errs.InvalidParams, "store", "%d addresses came with %d sizes", len(p.Ptrs), len(p.Sizes))
	case p.Rows == nil && len(p.Ptrs) != n:
		return errs.New(errs.InvalidParams, "store", "%d keys came with %d pieces of memory", n, len(p.Ptrs))
	case p.Rows != nil && len(p.Rows) != n+1:
		return errs.New(errs.InvalidParams, "store", "%d keys came with memory for %d", n, len(p.Rows)-1)
	}
	return nil
}

var errFragment = errs.New(errs.InvalidParams, "store", "a piece of memory is at address 0, or has a size that no memory has")

// scratch is the memory of one call, which later calls reuse.
type scratch struct {
	mem   [][]byte
	rows  [][][]byte
	items []store.Item
}

// scratches pools scratch memory. Its addresses are never those of Go's memory.
var scratches = sync.Pool{New: func() any { return new(scratch) }}

// maxScratch bounds the pooled memory of one scratch, in fragments.
const maxScratch = 1 << 16

func (s *scratch) release() {
	if max(cap(s.mem), cap(s.rows)) > maxScratch {
		return
	}
	clear(s.mem[:cap(s.mem)])
	clear(s.rows[:cap(s.rows)])
	clear(s.items[:cap(s.items)])
	scratches.Put(s)
}

// gather makes the memory of n objects: rows[i] for object i. It calls bad for each invalid row and
// leaves that row empty.
func (s *scratch) gather(p *Fragments, n int, bad func(int)) {
	if need := len(p.Ptrs); cap(s.mem) < need {
		s.mem = make([][]byte, 0, need)
	}
	if cap(s.rows) < n {
		s.rows = make([][][]byte, 0, n)
	}
	s.mem, s.rows = s.mem[:0], s.rows[:n]
	for i := range n {
		lo, hi, ok := p.row(i)
		begin := len(s.mem)
		for j := lo; ok && j < hi; j++ {
			var m []byte
			if m, ok = At(p.Ptrs[j], p.Sizes[j]); ok {
				s.mem = append(s.mem, m)
			}
		}
		if !ok {
			s.mem = s.mem[:begin]
			bad(i)
			continue
		}
		s.rows[i] = s.mem[begin:len(s.mem):len(s.mem)]
	}
}
