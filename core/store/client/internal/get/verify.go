package get

import (
	"context"

	"github.com/mooncake-go/mooncake/core/store/internal/fragment"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// verify compares the checksums of items that arrived and completes the good ones. It appends to
// again the items of which more is to be read, and those to read again: once from the same replica,
// then from another.
func (c *Call) verify(ctx context.Context, items, again []*Item) []*Item {
	r := c.r
	if r.Config.Checksum {
		c.checksums.Reset()
		for _, it := range items {
			if it.cover.parts != nil {
				c.needGrains(it)
			}
			if r.verifiable(it) && it.whole && !it.computed && !it.unfinished() {
				c.checksums.Add(it.fragments)
			} else {
				c.checksums.Add(nil)
			}
		}
		c.checksums.Compute()
		c.grains.Compute()
	}
	good := items[:0]
	for i, it := range items {
		if r.Config.Checksum && it.cover.parts != nil {
			c.foldGrains(it)
		}
		if it.unfinished() {
			again = append(again, it)
			continue
		}
		if r.verifiable(it) {
			if it.whole && !it.computed {
				it.checksum = c.checksums.Of[i]
			}
			if wrong := c.wrong(it); wrong != nil {
				if r.mismatch(it, wrong) {
					again = append(again, it)
				}
				continue
			}
		}
		good = append(good, it)
	}
	c.openAll(ctx, good, func(it *Item, wrong error) {
		switch {
		case wrong == nil:
			r.complete(it)
		case r.unopened(it, wrong):
			again = append(again, it)
		}
	})
	return again
}

// complete counts an item that was read.
func (r *Reader) complete(it *Item) {
	it.ok = true
	n := float64(fragment.Bytes(it.fragments))
	r.Metrics.ReadBytes.Add(n)
	if onTier(it) {
		r.Metrics.TierReads.Add(1)
		r.Metrics.TierBytes.Add(n)
	}
	r.countRead(it)
}

// wrong returns an error if the bytes of an item do not match their checksums.
func (c *Call) wrong(it *Item) error {
	if it.whole {
		if uint64(it.checksum) == it.object.Checksum.Value {
			return nil
		}
		return errs.New(errs.ChecksumMismatch, it.replica().Endpoint, "the checksum is %08x, not %08x", it.checksum, it.object.Checksum.Value)
	}
	at, ok := c.matches(it)
	if ok {
		return nil
	}
	return errs.New(errs.ChecksumMismatch, it.replica().Endpoint, "the bytes from %d on do not match their checksum", at)
}

// mismatch records that a replica had wrong bytes, and returns whether to read the item again.
func (r *Reader) mismatch(it *Item, wrong error) bool {
	at := it.replica()
	r.Metrics.Mismatches.Inc()
	r.Log.Warn("a replica of an object has wrong bytes", "key", it.Key, "segment", at.Segment, "endpoint", at.Endpoint, "stripes", 1+len(at.More), "bytes", it.object.Size)
	it.last = wrong
	if !it.twice { // The bytes may have been damaged on the way.
		it.twice = true
		it.restart()
		return true
	}
	it.damaged++
	return r.nextReplica(it)
}

// verifiable reports whether there is a checksum for the item's bytes.
func (r *Reader) verifiable(it *Item) bool {
	return r.Config.Checksum && it.object.Checksum.CRC32C()
}
