package store

import (
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// verify checks what arrived and decides the items that are right. It returns those that
// are to be read again: once from the same replica, then from another.
func (c *Client) verify(items []*readItem) (again []*readItem) {
	sums := make([]model.Checksum, len(items))
	if c.cfg.Checksum {
		checksums(len(items), func(i int) []span {
			if !c.checked(items[i]) {
				return nil
			}
			return items[i].spans
		}, func(i int, s model.Checksum) { sums[i] = s })
	}
	for i, it := range items {
		if c.checked(it) && sums[i] != it.obj.Checksum {
			r := it.replica()
			c.metrics.mismatches.Inc()
			c.log.Warn("a copy of an object has wrong bytes", "key", it.key, "segment", r.Segment, "endpoint", r.Endpoint, "parts", 1+len(r.More), "bytes", it.obj.Size)
			it.last = errs.New(errs.ChecksumMismatch, r.Endpoint, "the checksum is %08x, not %08x", sums[i].Value, it.obj.Checksum.Value)
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
