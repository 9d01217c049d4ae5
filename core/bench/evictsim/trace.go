package evictsim

import (
	"errors"
	"io"

	"github.com/mooncake-go/mooncake/core/bench/trace"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// MaxBlocks is the largest number of blocks of a trace, which takes about 4 GiB.
const MaxBlocks = 1 << 28

// Trace is a trace in memory, read only and safe for concurrent use.
type Trace struct {
	blocks   []uint32 // numbered in the order in which they first appear
	ends     []int    // of each request in blocks
	distinct int
}

// Load reads a whole source. It refuses one without blocks and one with more than
// MaxBlocks with InvalidParams, and passes on the errors of the source.
func Load(src trace.Source) (*Trace, error) {
	t := new(Trace)
	number := make(map[uint64]uint32)
	for {
		r, err := src.Next()
		switch {
		case errors.Is(err, io.EOF) && len(t.blocks) == 0:
			return nil, errs.New(errs.InvalidParams, "trace", "it has no blocks, so there is nothing to hit")
		case errors.Is(err, io.EOF):
			t.distinct = len(number)
			return t, nil
		case err != nil:
			return nil, err
		case len(t.blocks)+len(r.Blocks) > MaxBlocks:
			return nil, errs.New(errs.InvalidParams, "trace", "it has more than %d blocks; cut it", MaxBlocks)
		}
		for _, b := range r.Blocks {
			n, known := number[b]
			if !known {
				n = uint32(len(number))
				number[b] = n
			}
			t.blocks = append(t.blocks, n)
		}
		t.ends = append(t.ends, len(t.blocks))
	}
}

// Requests is the number of requests.
func (t *Trace) Requests() int { return len(t.ends) }

// Blocks is the number of blocks of all requests.
func (t *Trace) Blocks() int { return len(t.blocks) }

// Distinct is the number of different blocks.
func (t *Trace) Distinct() int { return t.distinct }
