package get

import (
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/internal/fragment"
	"github.com/mooncake-go/mooncake/core/store/internal/seal"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// place chooses what to read of the object, and where to.
func (c *Call) place(it *Item) error {
	it.plain, it.trailer, it.forged = it.object.Size, nil, false
	if c.r.Seal == nil || it.raw {
		return c.placeValue(it)
	}
	return c.placeSealed(it)
}

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

// placeValue chooses what to read of the value.
func (c *Call) placeValue(it *Item) error {
	o, r := &it.object, c.r
	if it.Owner != Caller {
		if o.Size > r.Config.MaxObjectSize {
			return errs.New(errs.BufferOverflow, "", "the object has %s, more than the bound of %s", memory.Human(o.Size), memory.Human(r.Config.MaxObjectSize))
		}
		if uint64(len(it.mem)) != it.plain {
			r.allocate(it)
		}
		it.one[0] = store.Fragment{Mem: it.mem}
		it.fragments, it.whole, it.asked = it.one[:], true, int(it.plain)
		return nil
	}
	if it.Ranges != nil {
		it.fragments = it.Ranges(it.plain)
		it.asked = fragment.Bytes(it.fragments)
		it.whole = fragment.Covers(it.fragments, it.plain)
		return nil
	}
	own := append(it.one[:0], it.want...) // Cut shortens a copy, since a retry may find another size.
	fragments, ok := fragment.Cut(own, it.plain)
	if !ok {
		return errs.New(errs.InvalidParams, "", "the object has %d bytes, the buffer %d", it.plain, fragment.Bytes(it.want))
	}
	it.fragments, it.whole, it.asked = fragments, true, int(it.plain)
	return nil
}

// allocate gives the item memory for its object.
func (r *Reader) allocate(it *Item) {
	it.buffer.Release()
	it.buffer, it.mem = nil, nil
	if it.Owner == Lent && r.Buffers != nil {
		if b, ok := r.Buffers.TryGet(int(it.plain)); ok {
			it.buffer, it.mem = &Buffer{mem: b.Bytes(), lent: b}, b.Bytes()
			return
		}
	}
	it.mem = make([]byte, it.plain)
}
