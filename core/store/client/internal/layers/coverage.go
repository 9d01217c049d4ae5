package layers

import (
	"slices"
	"sort"
)

// maxRuns bounds the runs of one object.
const maxRuns = 65536

// coverage records which bytes of an object are in place, as runs with gaps in between, in order.
type coverage struct {
	runs  []run
	twice bool // a byte was written twice
}

// run is the bytes [lo, hi).
type run struct{ lo, hi uint64 }

// hasSpace reports whether n more ranges can be recorded.
func (c *coverage) hasSpace(n int) bool { return len(c.runs)+n <= maxRuns }

// add records that the bytes [lo, hi) are in place.
func (c *coverage) add(lo, hi uint64) {
	// All runs that touch [lo, hi) become one with it.
	i := sort.Search(len(c.runs), func(i int) bool { return c.runs[i].hi >= lo })
	j, all := i, run{lo, hi}
	for ; j < len(c.runs) && c.runs[j].lo <= hi; j++ {
		r := c.runs[j]
		c.twice = c.twice || r.hi > lo && r.lo < hi
		all = run{min(all.lo, r.lo), max(all.hi, r.hi)}
	}
	c.runs = slices.Replace(c.runs, i, j, all)
}

// whole reports whether all bytes of an object are in place.
func (c *coverage) whole(size uint64) bool {
	return len(c.runs) == 1 && c.runs[0].lo == 0 && c.runs[0].hi == size
}
