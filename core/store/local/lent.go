package local

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/local/internal/codec"
	"github.com/mooncake-go/mooncake/core/store/local/internal/shm"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	localv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/local/v1"
)

// lent is the memory in which a service lends objects, mapped for reading. It is unmapped when the
// attachment has ended and the last object is released.
type lent struct {
	mu      sync.Mutex
	mapping *shm.Mapping
	users   int // the attachment and the objects held
}

// take returns [off, off+n) and counts a user. It returns nil if the range is beyond the memory, or
// the memory is unmapped.
func (m *lent) take(off, n uint64) []byte {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if size := uint64(len(m.mapping.Bytes())); m.users == 0 || off > size || n > size-off {
		return nil
	}
	m.users++
	return m.mapping.Bytes()[off:][:n:n]
}

func (m *lent) drop() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.users--; m.users == 0 {
		_ = m.mapping.Close() // There is no way to handle an error.
	}
}

// Buffer is an object in memory that the caller does not own, until Release.
type Buffer struct {
	mem     []byte
	release func()
}

// Bytes returns the object, which must not be written to; nil after Release.
func (b *Buffer) Bytes() []byte { return b.mem }

// Release frees the memory, which must not be used any more. Releasing twice, or nil, does nothing.
func (b *Buffer) Release() {
	if b == nil || b.release == nil {
		return
	}
	release := b.release
	b.mem, b.release = nil, nil
	release()
}

// GetBuffers implements store.Pool. The memory is lent by the service, or is in the local buffer if
// the service lends none. It stays readable when the service ends.
func (c *Client) GetBuffers(ctx context.Context, keys []model.Key, fresh bool) []model.Result[store.Lent] {
	out := make([]model.Result[store.Lent], len(keys))
	if err := c.calls.Enter("local client"); err != nil {
		all(out, err)
		return out
	}
	defer c.calls.Leave()
	if fresh {
		index := make([]int, len(keys))
		for i := range index {
			index[i] = i
		}
		c.fetch(ctx, keys, index, func(i int, object []byte, err error) {
			if out[i].Err = err; err == nil {
				out[i].Value = &Buffer{mem: slices.Clone(object)}
			}
		})
		return out
	}
	calls(keys, func(lo, hi int) {
		for k, r := range c.borrow(ctx, keys[lo:hi]) {
			if errs.Is(r.Err, errs.BufferOverflow) {
				r.Value, r.Err = c.intoStage(ctx, keys[lo+k])
			}
			if out[lo+k].Err = r.Err; r.Err == nil {
				out[lo+k].Value = r.Value
			}
		}
	})
	return out
}

// fetch calls use with the objects of the keys at the indexes, one after the other, or with their
// errors. The memory of each is valid until use returns.
func (c *Client) fetch(ctx context.Context, keys []model.Key, index []int, use func(i int, object []byte, err error)) {
	for len(index) > 0 {
		names := make([]model.Key, len(index))
		for k, i := range index {
			names[k] = keys[i]
		}
		var again []int
		got := false
		calls(names, func(lo, hi int) {
			res := c.borrow(ctx, names[lo:hi])
			for k, r := range res {
				if errs.Is(r.Err, errs.BufferOverflow) {
					again = append(again, index[lo+k])
					continue
				}
				got = true
				if r.Err != nil {
					use(index[lo+k], nil, r.Err)
				} else {
					use(index[lo+k], r.Value.Bytes(), nil)
				}
			}
			for _, r := range res {
				r.Value.Release()
			}
		})
		if index = again; !got {
			break // The service lends nothing now.
		}
	}
	for _, i := range index {
		b, err := c.intoStage(ctx, keys[i])
		if err != nil {
			use(i, nil, err)
			continue
		}
		use(i, b.Bytes(), nil)
		b.Release()
	}
}

// borrow reads objects into memory that the service lends.
func (c *Client) borrow(ctx context.Context, keys []model.Key) []model.Result[*Buffer] {
	out := make([]model.Result[*Buffer], len(keys))
	var from *attachment
	resp, _, err := touch(ctx, c, "get buffer", func(ctx context.Context, a *attachment, call *localv1.Call) (*localv1.LendResponse, error) {
		from = a
		return a.rpc.Lend(ctx, &localv1.LendRequest{Call: call, Keys: codec.KeysOut(keys)})
	})
	n := len(keys)
	if err == nil && (len(resp.GetLeases()) != n || len(resp.GetOffsets()) != n || len(resp.GetLengths()) != n) {
		err = errs.New(errs.DeserializeFail, "local client: get buffer", "the answer is not for %d objects", n)
	}
	fill(out, "get buffer", make([]*Buffer, n), resp.GetErrors(), err)
	for i := range out {
		if out[i].Err != nil {
			continue
		}
		mem := from.lent.take(resp.Offsets[i], resp.Lengths[i])
		if mem == nil {
			out[i].Err = outage(c.cfg.Socket, errors.New("the memory that the service lent is unmapped, or the range is beyond it"))
			continue
		}
		id := resp.Leases[i]
		out[i].Value = &Buffer{mem: mem, release: func() { from.release(id) }}
	}
	return out
}

// release returns a lent object.
func (a *attachment) release(id uint64) {
	if a.live.Err() == nil {
		ctx, cancel := context.WithTimeout(a.live, a.cfg.PingTimeout)
		_, _ = a.rpc.Release(ctx, &localv1.ReleaseRequest{Leases: []uint64{id}}) // At the latest the end of the attachment releases it.
		cancel()
	}
	a.lent.drop()
}

// intoStage reads an object into the local buffer.
func (c *Client) intoStage(ctx context.Context, key model.Key) (*Buffer, error) {
	size, err := c.Size(ctx, key)
	if err != nil {
		return nil, err
	}
	if size > uint64(1)<<62 {
		return nil, errs.New(errs.DeserializeFail, "local client: get", "an object cannot have %d bytes", size)
	}
	if err := c.fits(int(size)); err != nil {
		return nil, err
	}
	buf, err := c.waitForSpace(ctx, int(size))
	if err != nil {
		return nil, err
	}
	b := batch{c: c}
	_, _ = b.add(ctx, key, [][]byte{buf.Bytes()}) // The local buffer is a region.
	r := c.get(ctx, &b.collected, &localv1.GetRequest{}, 1)[0]
	if r.Err != nil {
		if !errors.Is(r.Err, transfer.ErrQuarantined) {
			buf.Release()
		}
		return nil, r.Err
	}
	return &Buffer{mem: buf.Bytes()[:r.Value], release: buf.Release}, nil
}
