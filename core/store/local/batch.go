package local

import (
	"context"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store/local/internal/codec"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// batch collects the objects of one call and the shared memory that belongs to them.
type batch struct {
	c *Client
	// send makes the call for what was collected. add calls it when the batch is full.
	send func()
	collected
}

type collected struct {
	keys   [][]byte
	counts []uint32    // how many refs each object has
	refs   []codec.Ref // the memory
	staged []*memory.Buffer
	bytes  int // of the keys
}

// take returns what was collected and empties the batch.
func (b *batch) take() collected {
	out := b.collected
	b.collected = collected{}
	return out
}

// release frees the local buffer, unless the service may still use it.
func (s *collected) release(quarantined bool) {
	if quarantined {
		return
	}
	for _, buf := range s.staged {
		buf.Release()
	}
}

// add adds an object and its memory. If any of the memory is not shared, the object gets memory of
// the local buffer instead, which add returns; the caller copies the bytes.
func (b *batch) add(ctx context.Context, key model.Key, mem [][]byte) (staged [][]byte, err error) {
	if n := len(b.keys); n > 0 && (n >= maxItems || len(b.refs)+len(mem) > maxRefs || b.bytes+len(key) > maxKeyBytes) {
		b.send()
	}
	refs, shared := b.c.regions.refs(mem)
	if !shared {
		total := 0
		for _, m := range mem {
			total += len(m)
		}
		buf, err := b.space(ctx, total)
		if err != nil {
			return nil, err
		}
		b.staged = append(b.staged, buf)
		rest := buf.Bytes()
		staged = make([][]byte, len(mem))
		for i, m := range mem {
			staged[i], rest = rest[:len(m):len(m)], rest[len(m):]
		}
		refs, _ = b.c.regions.refs(staged) // The local buffer is a region.
	}
	b.keys = append(b.keys, []byte(key))
	b.counts = append(b.counts, uint32(len(refs)))
	b.refs = append(b.refs, refs...)
	b.bytes += len(key)
	return staged, nil
}

// space lends size bytes of the local buffer. Before it waits, it sends the batch, which frees its
// part of the buffer, so that two batches cannot wait for each other.
func (b *batch) space(ctx context.Context, size int) (*memory.Buffer, error) {
	if err := b.c.fits(size); err != nil {
		return nil, err
	}
	if buf, ok := b.c.stage.TryGet(size); ok {
		return buf, nil
	}
	if len(b.staged) > 0 {
		b.send()
	}
	return b.c.waitForSpace(ctx, size)
}

// fits returns an error for a size that the local buffer does not have.
func (c *Client) fits(size int) error {
	have := 0
	if c.stage != nil {
		have = len(c.stage.Memory())
	}
	if c.stage == nil || size > have {
		return errs.WithHint(errs.New(errs.BufferOverflow, "local client", "%s in memory that is not shared do not fit the local buffer of %s", memory.Human(uint64(size)), memory.Human(uint64(have))),
			"use memory of the allocator and register it, or a larger local buffer")
	}
	return nil
}

// waitForSpace lends size bytes of the local buffer, which fit.
func (c *Client) waitForSpace(ctx context.Context, size int) (*memory.Buffer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer cancel()
	return c.stage.Get(ctx, size)
}
