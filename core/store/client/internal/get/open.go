package get

import (
	"context"

	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/internal/fragment"
	"github.com/mooncake-go/mooncake/core/store/internal/seal"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// A sealed object is read like any other, with its trailer, into the memory of the caller, and opened there once its checksum
// was compared. A reader of ranges also reads what is left of their first and last chunks, into scratch memory. What the
// master says of the seal does not count: whoever has keys accepts sealed objects only.

// placeSealed chooses what to read of an object that must be sealed.
func (c *Call) placeSealed(it *Item) error {
	o := &it.object
	plain, ok := seal.PlainSize(o.Size)
	if !ok {
		return errs.WithHint(errs.New(errs.ChecksumMismatch, "", "the object is not sealed: no sealed object has %d bytes", o.Size),
			"it was put without security.seal, or is forged; remove it")
	}
	it.plain = plain
	err := c.placeValue(it)
	if err != nil || len(it.fragments) == 0 {
		return err
	}
	if !it.whole {
		it.fragments = fragment.Cover(make([]store.Fragment, 0, 3*len(it.fragments)+2), it.fragments, seal.ChunkSize(plain), plain, c.takeScratch)
	}
	it.addTrailer(c.takeScratch(int(seal.TrailerSize(plain))))
	it.whole = fragment.Covers(it.fragments, o.Size)
	return nil
}

// addTrailer has the trailer of a sealed object read too.
func (it *Item) addTrailer(trailer []byte) {
	it.trailer = trailer
	it.fragments = append(it.fragments, store.Fragment{Offset: it.plain, Mem: trailer})
}

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
