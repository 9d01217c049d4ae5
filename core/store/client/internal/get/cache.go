package get

import (
	"context"
	"errors"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store/hotcache"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

// fromCache serves items from the hot cache and returns the others. The master has just described
// the objects, so the cache serves no value that was replaced. The bytes are verified like those of
// a replica.
func (c *Call) fromCache(ctx context.Context, items []*Item) []*Item {
	hot := c.r.hot
	if hot == nil {
		return items
	}
	rest, hits := items[:0:0], items[:0:0]
	for _, it := range items {
		if it.uncached || !c.r.cacheable(it) || !hot.View(it.Key, &it.object, func(object []byte) bool { return c.copyFrom(it, object) }) {
			rest = append(rest, it)
			continue
		}
		hits = append(hits, it)
	}
	c.openAll(ctx, hits, func(it *Item, wrong error) {
		if it.ok = wrong == nil; !it.ok { // Its replicas say why.
			hot.Drop(it.Key)
			rest = append(rest, it)
		}
	})
	return rest
}

// copyFrom copies the fragments of an item from the whole object, if its bytes there are right.
func (c *Call) copyFrom(it *Item, object []byte) bool {
	if !it.whole {
		it.ok = c.copyRanges(it, object)
		return it.ok
	}
	var checksum uint32
	for _, f := range it.fragments {
		checksum = crc32c.CopyUpdate(checksum, f.Mem, object[f.Offset:][:len(f.Mem)])
	}
	it.ok = uint64(checksum) == it.object.Checksum.Value
	return it.ok
}

// cacheable reports whether the value differs from others by its checksum and has its replicas on
// other nodes.
func (r *Reader) cacheable(it *Item) bool {
	return it.object.Checksum.CRC32C() && it.object.Replicas[0].Endpoint != r.Engine.LocalName()
}

// countRead counts a read from another node for the hot cache.
func (r *Reader) countRead(it *Item) {
	if r.hot != nil && !it.uncached && r.cacheable(it) {
		r.hot.Saw(it.Key, it.object.Size)
	}
}

// fill reads an object for the hot cache.
func (r *Reader) fill(ctx context.Context, key model.Key, dst []byte) (hotcache.Stamp, bool, error) {
	c := r.Call(1)
	defer c.Release()
	it := &c.Items[0]
	it.Key, it.uncached, it.raw = key, true, true
	it.Into(dst)
	c.todo = append(c.todo[:0], it)
	c.read(ctx, c.todo)
	if it.Err != nil {
		return hotcache.Stamp{}, errors.Is(it.Err, transfer.ErrQuarantined), it.Err
	}
	return hotcache.Stamp{Size: it.object.Size, Checksum: it.object.Checksum, Replica: it.replica().ID}, false, nil
}

// Forget removes keys from the hot cache.
func (r *Reader) Forget(keys []model.Key) {
	if r.hot != nil {
		for _, k := range keys {
			r.hot.Drop(k)
		}
	}
}

// ForgetAll empties the hot cache.
func (r *Reader) ForgetAll() {
	if r.hot != nil {
		r.hot.Clear()
	}
}
