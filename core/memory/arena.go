// Package memory hands out the host memory that takes part in transfers: segments of a
// node, staging buffers of a client.
//
// Blocks are memfd mappings where the kernel allows it, so that another process can map
// the same memory without a copy. Pages are touched by whoever uses them first: a block
// of 1 TiB costs address space only until something is stored in it.
//
// Allocate maps one block; a Host cuts the buffers of a process from an arena, and maps
// them one by one where there is none. Huge pages and Bind are requirements, the arena and
// the other placements are wishes: what a requirement lacks is an error with a Shortage,
// what a wish lacks is a warning. Sub-folder hicache plans huge pages for an engine.
//
// This is the one room of the core that converts between slices and addresses; all
// others carry addresses as plain uint64.
package memory

import (
	"math"
	"os"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Arena is one large block from which pieces are cut and to which they go back: a piece
// costs some 50 ns where a mapping of its own costs microseconds and page faults. It never
// grows. Safe for concurrent use; a lock is held for a few dozen instructions.
type Arena struct {
	block *Block
	mem   []byte
	unit  uint64

	mu     sync.Mutex
	free   *extents // nil once closed
	pieces int
}

// NewArena maps size bytes, rounded up to whole pages. The errors are those of Allocate.
func NewArena(size uint64, o Options) (*Arena, error) {
	b, err := Allocate(size, o)
	if err != nil {
		return nil, err
	}
	a := &Arena{block: b, mem: b.Bytes(), unit: uint64(os.Getpagesize())}
	if units := uint64(len(a.mem)) / a.unit; units > math.MaxInt32 {
		a.unit *= units/math.MaxInt32 + 1 // The extents are counted in 31 bits.
	}
	a.free = newExtents(uint64(len(a.mem)) / a.unit)
	return a, nil
}

// Piece is memory cut from an Arena. It is a small value to copy; all copies are the same
// piece. The zero value is no piece.
type Piece struct {
	arena *Arena
	mem   []byte
	index int32
	gen   uint32
}

// Take cuts size bytes, which begin on a page. False when no run of that length is free, for 0
// bytes, and after Close. The content is unspecified.
func (a *Arena) Take(size uint64) (Piece, bool) {
	if size == 0 || size > uint64(len(a.mem)) {
		return Piece{}, false
	}
	a.mu.Lock()
	if a.free == nil {
		a.mu.Unlock()
		return Piece{}, false
	}
	i := a.free.take((size + a.unit - 1) / a.unit)
	if i == none {
		a.mu.Unlock()
		return Piece{}, false
	}
	x := &a.free.nodes[i]
	p := Piece{arena: a, index: i, gen: x.gen}
	off := x.off * a.unit
	a.pieces++
	a.mu.Unlock()
	p.mem = a.mem[off : off+size : off+size]
	return p, true
}

// Bytes returns the memory: as many bytes as were asked for.
func (p Piece) Bytes() []byte { return p.mem }

// Offset returns where in the arena's shared memory the piece begins, in bytes.
func (p Piece) Offset() int64 { return int64(AddrOf(p.mem) - p.arena.block.addr) }

// Release gives the piece back; its bytes must not be used any more. Releasing twice, or
// two copies of one piece, does nothing.
func (p Piece) Release() {
	a := p.arena
	if a == nil {
		return
	}
	a.mu.Lock()
	if a.free != nil && a.free.give(p.index, p.gen) {
		a.pieces--
	}
	a.mu.Unlock()
}

// Size returns the length of the arena in bytes.
func (a *Arena) Size() uint64 { return uint64(len(a.mem)) }

// FD returns the descriptor of the arena's shared memory, -1 for none.
func (a *Arena) FD() int { return a.block.FD() }

// Used returns the bytes cut, rounding included, and the number of pieces.
func (a *Arena) Used() (bytes uint64, pieces int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.free == nil {
		return 0, 0
	}
	return (uint64(len(a.mem))/a.unit - a.free.free) * a.unit, a.pieces
}

// Close gives the memory back. It refuses while pieces are out, since their bytes may be
// in use; it can be called again then. Repeatable.
func (a *Arena) Close() error {
	a.mu.Lock()
	if a.pieces > 0 {
		n := a.pieces
		a.mu.Unlock()
		return errs.New(errs.Internal, "memory: close arena", "%d pieces of it are still in use", n)
	}
	a.free = nil
	a.mu.Unlock()
	return a.block.Close()
}
