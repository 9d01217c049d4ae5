package layers

import (
	"slices"
	"sort"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store/internal/fragment"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

// maxRuns bounds the runs of one object.
const maxRuns = 65536

// coverage records which bytes of an object are in place, as runs with gaps in between, in order,
// and the checksum of each run. Once a byte was written twice the checksums are invalid.
type coverage struct {
	runs  []run
	twice bool
}

// run is the bytes [lo, hi).
type run struct {
	lo, hi   uint64
	checksum uint32
}

// hasSpace reports whether n more ranges can be recorded.
func (c *coverage) hasSpace(n int) bool { return len(c.runs)+n <= maxRuns }

// add records that the bytes [lo, hi) are in place.
func (c *coverage) add(lo, hi uint64, checksum uint32) {
	// All runs that touch [lo, hi) become one with it.
	i := sort.Search(len(c.runs), func(i int) bool { return c.runs[i].hi >= lo })
	j := i
	all := run{lo, hi, checksum}
	for ; j < len(c.runs) && c.runs[j].lo <= hi; j++ {
		r := c.runs[j]
		switch {
		case r.hi == all.lo:
			all = run{r.lo, all.hi, crc32c.Combine(r.checksum, all.checksum, all.hi-all.lo)}
		case all.hi == r.lo:
			all = run{all.lo, r.hi, crc32c.Combine(all.checksum, r.checksum, r.hi-r.lo)}
		default:
			all.lo, all.hi, c.twice = min(all.lo, r.lo), max(all.hi, r.hi), true
		}
	}
	c.runs = slices.Replace(c.runs, i, j, all)
}

// whole reports whether all bytes of an object are in place, and returns its checksum, if that is
// valid.
func (c *coverage) whole(size uint64) (bool, model.Checksum) {
	if len(c.runs) != 1 || c.runs[0].lo != 0 || c.runs[0].hi != size {
		return false, model.Checksum{}
	}
	if c.twice {
		return true, model.Checksum{}
	}
	return true, fragment.CRC32C(c.runs[0].checksum)
}
