package store

import (
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// verify checks what arrived, whether or not its checksum was computed during the copy, and decides
// the items that are right. It appends to again those that are to be read again: once from the same
// replica, then from another.
func (c *Client) verify(r *reading, items, again []*readItem) []*readItem {
	if c.cfg.Checksum {
		r.sums.reset()
		for _, it := range items {
			if c.checked(it) && !it.summed {
				r.sums.add(it.spans)
			} else {
				r.sums.add(nil)
			}
		}
		r.sums.compute()
	}
	for i, it := range items {
		if c.checked(it) && !it.summed {
			it.sum = uint32(r.sums.sums[i].Value)
		}
		if c.checked(it) && uint64(it.sum) != it.obj.Checksum.Value {
			at := it.replica()
			c.metrics.mismatches.Inc()
			c.log.Warn("a copy of an object has wrong bytes", "key", it.key, "segment", at.Segment, "endpoint", at.Endpoint, "parts", 1+len(at.More), "bytes", it.obj.Size)
			it.last = errs.New(errs.ChecksumMismatch, at.Endpoint, "the checksum is %08x, not %08x", it.sum, it.obj.Checksum.Value)
			if !it.twice { // It may have happened on the way.
				it.twice = true
				again = append(again, it)
				continue
			}
			it.damaged++
			if c.another(it) {
				again = append(again, it)
			}
			continue
		}
		it.ok = true
		n := 0
		for _, s := range it.spans {
			n += len(s.mem)
		}
		c.metrics.readBytes.Add(float64(n))
		c.warm(it)
	}
	return again
}

// checked reports whether the item's bytes are compared with a checksum. Those of a part of
// an object cannot be.
func (c *Client) checked(it *readItem) bool {
	return c.cfg.Checksum && it.whole && it.obj.Checksum.Kind == model.ChecksumCRC32C
}
