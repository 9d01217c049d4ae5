package get

import (
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store/internal/fragment"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// verify compares the checksums of items that arrived and completes the good ones. It appends to
// again the items to read again: once from the same replica, then from another.
func (c *Call) verify(items, again []*Item) []*Item {
	r := c.r
	if r.Config.Checksum {
		c.checksums.Reset()
		for _, it := range items {
			if r.verifiable(it) && !it.computed {
				c.checksums.Add(it.fragments)
			} else {
				c.checksums.Add(nil)
			}
		}
		c.checksums.Compute()
	}
	for i, it := range items {
		if r.verifiable(it) {
			if !it.computed {
				it.checksum = c.checksums.Of[i]
			}
			if uint64(it.checksum) != it.object.Checksum.Value {
				if r.mismatch(it) {
					again = append(again, it)
				}
				continue
			}
		}
		it.ok = true
		r.Metrics.ReadBytes.Add(float64(fragment.Bytes(it.fragments)))
		r.countRead(it)
	}
	return again
}

// mismatch records that a replica had wrong bytes, and returns whether to read the item again.
func (r *Reader) mismatch(it *Item) bool {
	at := it.replica()
	r.Metrics.Mismatches.Inc()
	r.Log.Warn("a replica of an object has wrong bytes", "key", it.Key, "segment", at.Segment, "endpoint", at.Endpoint, "stripes", 1+len(at.More), "bytes", it.object.Size)
	it.last = errs.New(errs.ChecksumMismatch, at.Endpoint, "the checksum is %08x, not %08x", it.checksum, it.object.Checksum.Value)
	if !it.twice { // The bytes may have been damaged on the way.
		it.twice = true
		return true
	}
	it.damaged++
	return r.nextReplica(it)
}

// verifiable reports whether there is a checksum for the item's bytes. There is none for a range of
// an object.
func (r *Reader) verifiable(it *Item) bool {
	return r.Config.Checksum && it.whole && it.object.Checksum.Kind == model.ChecksumCRC32C
}
