package get

import (
	"slices"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/internal/fragment"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

// Ranges are verified grain by grain. A reader of a range also reads what is left of the first and the
// last grain, into scratch memory. Of an object without checksums of grains it reads everything, and
// learns those of its grains from what matches the checksum of the object.

// maxScratch bounds the scratch memory, in bytes, and the parts of covers that later calls use.
const maxScratch, maxParts = 1 << 20, 1 << 12

// cover is what is read of an object for some of its ranges, so that the bytes can be verified.
type cover struct {
	parts []store.Fragment // none: the fragments are read, and not verified by grain
	grain uint64           // in bytes
	got   []uint32         // the checksums of the grains that arrived, as fragment.Layout counts them
}

// needsCover reports whether an item reads ranges that can be verified.
func (r *Reader) needsCover(it *Item) bool { return !it.whole && r.verifiable(it) }

// coverRanges makes the cover of an item that needs one.
func (c *Call) coverRanges(it *Item) error {
	if it.cover.parts != nil || !c.r.needsCover(it) {
		return nil
	}
	size := it.object.Size
	grain, n := fragment.GrainOf(size)
	within := grain // what is read together
	if n > 1 && len(it.object.Grains) != n {
		if it.object.Grains, within = nil, size; size > c.r.Config.MaxObjectSize {
			return errs.New(errs.BufferOverflow, "", "the object has no checksums of its ranges, so that a range is verified with the whole of it, and has %s, more than the bound of %s",
				memory.Human(size), memory.Human(c.r.Config.MaxObjectSize))
		}
	}
	if most := 3*len(it.fragments) + 1; cap(c.parts)-len(c.parts) < most {
		c.parts = make([]store.Fragment, 0, max(most, 2*cap(c.parts))) // Covers that were made stay where they are.
	}
	at := len(c.parts)
	c.parts = fragment.Cover(c.parts, it.fragments, within, size, c.takeScratch)
	it.cover.parts, it.cover.grain = c.parts[at:len(c.parts):len(c.parts)], grain
	l := fragment.Layout{Grain: grain}
	for i := range it.cover.parts {
		l.Next(&it.cover.parts[i])
	}
	it.cover.got = c.grains.Take(l.N)
	return nil
}

// takeScratch returns scratch memory of n bytes.
func (c *Call) takeScratch(n int) []byte {
	if cap(c.scratch)-len(c.scratch) < n {
		c.scratch = make([]byte, 0, max(n, min(2*cap(c.scratch), maxScratch), 4*model.MinGrain))
	}
	at := len(c.scratch)
	c.scratch = c.scratch[:at+n]
	return c.scratch[at : at+n : at+n]
}

// uncover forgets all covers, and their memory where that may still be touched or is large.
func (c *Call) uncover() {
	if c.leaked {
		c.scratch = nil
		c.grains.Abandon()
	} else {
		c.grains.Reset()
	}
	clear(c.parts)
	if c.parts, c.scratch, c.leaked = c.parts[:0], c.scratch[:0], false; cap(c.scratch) > maxScratch {
		c.scratch = nil
	}
	if cap(c.parts) > maxParts {
		c.parts = nil
	}
}

// needGrains notes the checksums of an item's grains that the transfer has not computed.
func (c *Call) needGrains(it *Item) {
	for i := it.first; i < it.end; i++ {
		if !c.results[i].Grained {
			c.grains.Need(i, c.requests[i].Local)
		}
	}
}

// foldGrains combines the checksums of an item's requests to those of its grains.
func (c *Call) foldGrains(it *Item) {
	if !onTier(it) { // else those of several transfers are combined
		clear(it.cover.got)
	}
	for i := it.first; i < it.end; i++ {
		c.grains.Of[i].FoldAsLaid(it.cover.got, len(c.requests[i].Local), it.object.Size)
	}
}

// matches compares the checksums of the grains that arrived. If they are wrong, at is where in the
// object, in bytes.
func (c *Call) matches(it *Item) (at uint64, ok bool) {
	o, cov := &it.object, &it.cover
	_, n := fragment.GrainOf(o.Size)
	if n == 1 || o.Grains == nil { // Each run is the whole object.
		for i := 0; i < len(cov.got); i += n {
			if uint64(fragment.Combine(cov.got[i:i+n], o.Size)) != o.Checksum.Value {
				return 0, false
			}
		}
		if n > 1 {
			o.Grains = slices.Clone(cov.got[:n])
			c.r.leases.Learn(it.lease, o)
		}
		return 0, true
	}
	l := fragment.Layout{Grain: cov.grain}
	for i := range cov.parts {
		p := &cov.parts[i]
		k, end := l.Next(p), p.Offset+uint64(len(p.Mem))
		for g := p.Offset / cov.grain; g*cov.grain < end; g, k = g+1, k+1 {
			if cov.got[k] != o.Grains[g] {
				return g * cov.grain, false
			}
		}
	}
	return 0, true
}

// copyRanges copies the ranges of an item from the whole object, if the bytes of their grains there are
// right.
func (c *Call) copyRanges(it *Item, object []byte) bool {
	if err := c.coverRanges(it); err != nil || it.cover.parts == nil {
		return false
	}
	cov, size := &it.cover, it.object.Size
	clear(cov.got)
	l := fragment.Layout{Grain: cov.grain}
	for i := range cov.parts {
		p := &cov.parts[i]
		k, lead := l.Next(p), int(p.Offset%cov.grain)
		sums := c.grains.Take(crc32c.GrainsOf(len(p.Mem), lead, int(cov.grain)))
		crc32c.CopyGrains(sums, p.Mem, object[p.Offset:][:len(p.Mem)], lead, int(cov.grain))
		m := fragment.Copied(p.Offset, k, lead, int(cov.grain), sums)
		m.FoldAsLaid(cov.got, len(p.Mem), size)
	}
	_, ok := c.matches(it)
	return ok
}
