package local

import (
	"context"
	"errors"
	"slices"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/local/internal/codec"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	localv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/local/v1"
)

// Get returns an object's bytes in new memory.
func (c *Client) Get(ctx context.Context, key model.Key) ([]byte, error) {
	r := c.BatchGet(ctx, []model.Key{key})[0]
	return r.Value, r.Err
}

// BatchGet is Get for many keys.
func (c *Client) BatchGet(ctx context.Context, keys []model.Key) []model.Result[[]byte] {
	out := make([]model.Result[[]byte], len(keys))
	if err := c.enter(); err != nil {
		all(out, err)
		return out
	}
	defer c.calls.Done()
	c.fetch(ctx, keys, upTo(len(keys)), func(i int, obj []byte, err error) {
		if out[i].Err = err; err == nil {
			out[i].Value = slices.Clone(obj)
		}
	})
	return out
}

// GetBuffer reads an object into memory that the service lends, or into the local buffer
// where it lends none. The caller releases it. It stays readable when the service goes away.
func (c *Client) GetBuffer(ctx context.Context, key model.Key) (store.Lent, error) {
	r := c.BatchGetBuffer(ctx, []model.Key{key})[0]
	return r.Value, r.Err
}

// BatchGetBuffer is GetBuffer for many keys.
func (c *Client) BatchGetBuffer(ctx context.Context, keys []model.Key) []model.Result[store.Lent] {
	out := make([]model.Result[store.Lent], len(keys))
	if err := c.enter(); err != nil {
		all(out, err)
		return out
	}
	defer c.calls.Done()
	chunks(keys, nil, func(lo, hi int) {
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

func upTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// fetch shows the objects of the keys at the indexes to use, one after the other, or why
// they cannot be had. Each is gone when use returns.
func (c *Client) fetch(ctx context.Context, keys []model.Key, index []int, use func(i int, obj []byte, err error)) {
	for len(index) > 0 {
		names := make([]model.Key, len(index))
		for k, i := range index {
			names[k] = keys[i]
		}
		var again []int
		got := false
		chunks(names, nil, func(lo, hi int) {
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
			break // Nothing can be lent now.
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
	var from *link
	resp, _, err := touch(ctx, c, "get buffer", func(ctx context.Context, l *link, call *localv1.Call) (*localv1.LendResponse, error) {
		from = l
		return l.rpc.Lend(ctx, &localv1.LendRequest{Call: call, Keys: codec.KeysOut(keys)})
	})
	n := len(keys)
	if err == nil && (len(resp.GetLeases()) != n || len(resp.GetOffsets()) != n || len(resp.GetLengths()) != n) {
		err = errs.New(errs.DeserializeFail, "local client: get buffer", "the answer is not for %d objects", n)
	}
	if err == nil {
		err = codec.ErrorsIn(n, resp.GetErrors(), func(i int, e error) { out[i].Err = e })
	}
	if err != nil {
		all(out, err)
		return out
	}
	for i := range out {
		if out[i].Err != nil {
			continue
		}
		mem := from.lent.take(resp.Offsets[i], resp.Lengths[i])
		if mem == nil {
			out[i].Err = outage(c.cfg.Socket, errors.New("what the service lent is gone, or is not within its memory"))
			continue
		}
		id := resp.Leases[i]
		out[i].Value = &Buffer{mem: mem, release: func() { from.release(id) }}
	}
	return out
}

// release gives a loan back.
func (l *link) release(id uint64) {
	if l.live.Err() == nil {
		ctx, cancel := context.WithTimeout(l.live, l.cfg.PingTimeout)
		_, _ = l.rpc.Release(ctx, &localv1.ReleaseRequest{Leases: []uint64{id}}) // It ends with the link at the latest.
		cancel()
	}
	l.lent.drop()
}

// intoStage reads an object into the local buffer.
func (c *Client) intoStage(ctx context.Context, key model.Key) (*Buffer, error) {
	size, err := c.Size(ctx, key)
	if err != nil {
		return nil, err
	}
	if size > uint64(1)<<62 {
		return nil, errs.New(errs.DeserializeFail, "local client: get", "an object of %d bytes cannot be", size)
	}
	buf, err := c.room(ctx, int(size), nil, false)
	if err != nil {
		return nil, err
	}
	r := c.intoBuffer(ctx, key, buf)
	if r.Err != nil {
		if !errors.Is(r.Err, transfer.ErrQuarantined) {
			buf.Release()
		}
		return nil, r.Err
	}
	return &Buffer{mem: buf.Bytes()[:r.Value], release: buf.Release}, nil
}

func (c *Client) intoBuffer(ctx context.Context, key model.Key, buf *memory.Buffer) (out model.Result[int]) {
	ref, _ := c.regions.ref(buf.Bytes()) // The local buffer is a region.
	c.get(ctx, []model.Key{key}, [][]codec.Ref{{ref}}, func(_ int, r model.Result[int]) { out = r })
	return out
}
