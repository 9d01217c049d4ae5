package get

import (
	"context"

	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/internal/seal"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// A sealed object is read like any other, with its trailer, into the memory of the caller, and opened there once its checksum
// was compared. A reader of ranges also reads what is left of their first and last chunks, into scratch memory. What the
// master says of the seal does not count: whoever has keys accepts sealed objects only.

// openAll opens the items that are sealed, on several cores if they are large. opened gets each of items, in order, with what is
// wrong with it.
func (c *Call) openAll(ctx context.Context, items []*Item, opened func(*Item, error)) {
	if c.r.Seal == nil {
		for _, it := range items {
			opened(it, nil)
		}
		return
	}
	objects, failed := make([]*seal.Object, len(items)), make([]error, len(items))
	for i, it := range items {
		if it.trailer != nil {
			objects[i], failed[i] = c.r.Seal.Open(ctx, &c.opening, it.Key, it.plain, it.fragments[:len(it.fragments)-1], it.trailer)
		}
	}
	c.opening.Do()
	for i, it := range items {
		if failed[i] == nil && objects[i] != nil {
			failed[i] = objects[i].Err()
		}
		opened(it, failed[i])
	}
}

// unopened records that a replica could not be opened, and returns whether to try another one. Its bytes may have the right
// checksum, which a forger computes too, so that to read it again does not help; and since the keys of this client may be at fault,
// the object is not removed.
func (r *Reader) unopened(it *Item, why error) bool {
	at := it.replica()
	if !errs.Is(why, errs.ChecksumMismatch) {
		it.Err = errs.Wrap(errs.CodeOf(why), "store: get "+store.Quote(it.Key), why)
		return false
	}
	r.Metrics.Unopened.Inc()
	r.Log.Warn("a replica of an object cannot be opened", "key", it.Key, "segment", at.Segment, "endpoint", at.Endpoint, "bytes", it.object.Size, "error", why)
	it.forged, it.last = true, errs.Wrap(errs.ChecksumMismatch, at.Endpoint, why)
	return r.nextReplica(it)
}
