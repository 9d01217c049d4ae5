package put

import (
	"context"
	"slices"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/internal/seal"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// A value is sealed once the master has given space for the object, since that of a key that exists need not be. Puts never
// change the memory of the caller: the ciphertext goes to staging memory, which bounds how much of a batch is put at a time.

// kind returns the checksum of an object as the master is to know it.
func (w *Writer) kind(sum model.Checksum) model.Checksum {
	if w.Seal != nil && sum.Kind == model.ChecksumCRC32C {
		sum.Kind = model.ChecksumSealed
	}
	return sum
}

// sealed calls put with the items, or, where the client seals, with as many of them at a time as there is staging memory for.
func (c *Call) sealed(ctx context.Context, items []*Item, put func([]*Item)) {
	w := c.w
	if w.Seal == nil {
		put(items)
		return
	}
	key, err := w.Seal.Current(ctx)
	if err != nil {
		for _, it := range items {
			it.Err = errs.Wrap(errs.CodeOf(err), "store: put "+store.Quote(it.key), err)
		}
		return
	}
	c.sealing.key = key
	for _, it := range items {
		it.Err = nil // of an attempt that found no space
		if it.value == nil {
			it.reserveTrailer()
		}
		it.fragments = nil // What an earlier attempt sealed is gone.
	}
	items = slices.DeleteFunc(slices.Clone(items), (*Item).failed)
	for len(items) > 0 {
		n, size := w.staging.fit(items)
		c.staged(ctx, items[:n], size, put)
		items = items[n:]
	}
}

// staged calls put with items whose values have a size together.
func (c *Call) staged(ctx context.Context, items []*Item, size int, put func([]*Item)) {
	s, err := c.w.staging.get(ctx, size)
	if err != nil {
		for _, it := range items {
			it.Err = errs.Wrap(errs.CodeOf(err), "store: put "+store.Quote(it.key), err)
		}
		return
	}
	c.sealing.space = s.mem
	put(items)
	c.sealing.space = nil
	for _, it := range items {
		it.fragments = nil
	}
	c.w.staging.put(s)
}

// seal seals the values of items that are not sealed yet.
func (c *Call) seal(items []*Item) {
	if c.w.Seal == nil {
		return
	}
	for _, it := range items {
		if it.fragments != nil {
			continue // by an earlier attempt
		}
		var body []byte
		fragments := it.value
		if c.w.Seal.Encrypts() {
			body, c.sealing.space = c.sealing.space[:it.plain:it.plain], c.sealing.space[it.plain:]
			fragments = []store.Fragment{{Mem: body}}
		}
		c.w.sealInto(c, it, fragments, body)
	}
	c.sealing.work.Do()
}

// sealInto adds to the work of a call that an item is sealed, and gives it the fragments of the object.
func (w *Writer) sealInto(c *Call, it *Item, fragments []store.Fragment, body []byte) {
	trailer := make([]byte, seal.TrailerSize(it.plain))
	if err := w.Seal.Seal(&c.sealing.work, &c.sealing.key, it.key, it.value, body, trailer); err != nil {
		panic(err) // The fragments of a value are all of it, and ciphers fail for keys of a wrong size only.
	}
	it.fragments = append(fragments[:len(fragments):len(fragments)], store.Fragment{Offset: it.plain, Mem: trailer})
}

// SealReserved seals the values of items that the writer reserved: all their bytes, in memory that nothing else uses any more.
func (c *Call) SealReserved(ctx context.Context, items []*Item, values [][]byte) error {
	key, err := c.w.Seal.Current(ctx)
	if err != nil {
		return err
	}
	c.sealing.key = key
	for i, it := range items {
		it.value = []store.Fragment{{Mem: values[i]}}
		c.w.sealInto(c, it, it.value, values[i])
	}
	c.sealing.work.Do()
	return nil
}
