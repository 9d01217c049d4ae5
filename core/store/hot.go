package store

import (
	"context"
	"errors"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store/hotcache"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

// fromCache serves the items that the hot cache has the bytes of, and returns the others.
// The master has just said what the value is, so a value that was replaced is never served;
// and the bytes are checked like those of any copy.
func (c *Client) fromCache(items []*readItem) []*readItem {
	if c.hot == nil {
		return items
	}
	rest := items[:0:0]
	for _, it := range items {
		if it.cold || !c.cacheable(it) || !c.hot.View(it.key, &it.obj, func(b []byte) bool { return c.copyOut(it, b) }) {
			rest = append(rest, it)
		}
	}
	return rest
}

func (c *Client) copyOut(it *readItem, b []byte) bool {
	var sum uint32
	for _, s := range it.spans {
		sum = crc32c.CopyUpdate(sum, s.mem, b[s.off:][:len(s.mem)])
	}
	if it.whole && uint64(sum) != it.obj.Checksum.Value {
		return false
	}
	it.ok = true
	return true
}

// cacheable: the value can be told from others, and its copies are all on other nodes.
func (c *Client) cacheable(it *readItem) bool {
	return it.obj.Checksum.Kind == model.ChecksumCRC32C && it.obj.Replicas[0].Endpoint != c.engine.LocalName()
}

// warm tells the hot cache of an item that was read from another node.
func (c *Client) warm(it *readItem) {
	if c.hot != nil && !it.cold && c.cacheable(it) {
		c.hot.Saw(it.key, it.obj.Size)
	}
}

// reread reads a value on behalf of the hot cache.
func (c *Client) reread(ctx context.Context, key model.Key, dst []byte) (hotcache.Stamp, bool, error) {
	r := c.reading(1)
	defer c.doneReading(r)
	it := &r.items[0]
	it.key, it.cold = key, true
	it.into(dst)
	r.todo = append(r.todo[:0], it)
	c.read(ctx, r, r.todo)
	if it.err != nil {
		return hotcache.Stamp{}, errors.Is(it.err, transfer.ErrQuarantined), it.err
	}
	return hotcache.Stamp{Size: it.obj.Size, Checksum: it.obj.Checksum, Replica: it.replica().ID}, false, nil
}

// forgetHot drops keys from the hot cache, all of them with nil.
func (c *Client) forgetHot(keys []model.Key) {
	switch {
	case c.hot == nil:
	case keys == nil:
		c.hot.Clear()
	default:
		for _, k := range keys {
			c.hot.Drop(k)
		}
	}
}
