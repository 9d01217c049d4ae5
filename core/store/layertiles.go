package store

import (
	"slices"
	"sort"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

// maxTiles bounds what is kept for one object.
const maxTiles = 65536

// tiles are the bytes of an object that are in place, as runs with gaps between them, in
// order, with the checksum of each run. Once bytes were written twice the checksums say
// nothing any more.
type tiles struct {
	runs  []tile
	twice bool
}

type tile struct {
	lo, hi uint64
	sum    uint32
}

// room reports whether n more pieces can be kept.
func (t *tiles) room(n int) bool { return len(t.runs)+n <= maxTiles }

// add takes in the bytes [lo, hi).
func (t *tiles) add(lo, hi uint64, sum uint32) {
	// All runs that touch [lo, hi) become one with it.
	i := sort.Search(len(t.runs), func(i int) bool { return t.runs[i].hi >= lo })
	j := i
	run := tile{lo, hi, sum}
	for ; j < len(t.runs) && t.runs[j].lo <= hi; j++ {
		r := t.runs[j]
		switch {
		case r.hi == run.lo:
			run = tile{r.lo, run.hi, crc32c.Combine(r.sum, run.sum, run.hi-run.lo)}
		case run.hi == r.lo:
			run = tile{run.lo, r.hi, crc32c.Combine(run.sum, r.sum, r.hi-r.lo)}
		default:
			run.lo, run.hi, t.twice = min(run.lo, r.lo), max(run.hi, r.hi), true
		}
	}
	t.runs = slices.Replace(t.runs, i, j, run)
}

// whole reports whether all bytes of an object are in place, and its checksum, if there is
// one.
func (t *tiles) whole(size uint64) (bool, model.Checksum) {
	if len(t.runs) != 1 || t.runs[0].lo != 0 || t.runs[0].hi != size {
		return false, model.Checksum{}
	}
	if t.twice {
		return true, model.Checksum{}
	}
	return true, model.Checksum{Kind: model.ChecksumCRC32C, Value: uint64(t.runs[0].sum)}
}
