package masterload

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/latency"
	"github.com/mooncake-go/mooncake/core/model"
)

// kind is a kind of call.
type kind struct {
	name string
	// whole is set where every batch that was put must be called once: else the next kind
	// would find other keys than it expects.
	whole bool
	call  func(ctx context.Context, c *caller, batch int) error
}

// kinds are in the order in which they are made.
var kinds = []kind{
	{name: "PutStart", call: func(ctx context.Context, c *caller, i int) error {
		got, err := c.master.PutStart(ctx, c.who, c.puts[i], model.DefaultReplicateConfig())
		c.written = i + 1
		return firstResult(got, err)
	}},
	{name: "PutEnd", whole: true, call: func(ctx context.Context, c *caller, i int) error {
		got, err := c.master.PutEnd(ctx, c.who, c.ends[i])
		return firstError(got, err)
	}},
	{name: "Exist", call: func(ctx context.Context, c *caller, i int) error {
		got, err := c.master.Exist(ctx, c.who, c.keys[i])
		return firstResult(got, err)
	}},
	{name: "GetReplicas", call: func(ctx context.Context, c *caller, i int) error {
		got, err := c.master.GetReplicas(ctx, c.who, c.keys[i])
		return firstResult(got, err)
	}},
	{name: "Remove", whole: true, call: func(ctx context.Context, c *caller, i int) error {
		got, err := c.master.Remove(ctx, c.who, c.keys[i], true)
		return firstError(got, err)
	}},
}

// caller is one thread with its batches, which are made before anything is timed.
type caller struct {
	master  CallMaster
	who     model.Caller
	keys    [][]model.Key
	puts    [][]model.PutItem
	ends    [][]model.EndItem
	written int // batches that were put
}

func newCaller(o CallsOptions, client model.ClientID, n, batches, batch int) *caller {
	c := &caller{master: o.Master, who: model.Caller{Client: client}}
	for i := range batches {
		keys, puts, ends := make([]model.Key, batch), make([]model.PutItem, batch), make([]model.EndItem, batch)
		for j := range keys {
			k := key(n, i*batch+j)
			keys[j] = k
			puts[j] = model.PutItem{Key: k, Size: PageSize}
			ends[j] = model.EndItem{Key: k, Checksum: model.Checksum{Kind: model.ChecksumCRC32C, Value: uint64(i)<<8 ^ uint64(j)}}
		}
		c.keys, c.puts, c.ends = append(c.keys, keys), append(c.puts, puts), append(c.ends, ends)
	}
	return c
}

// repeat makes calls until end, and returns how many. A kind that begins with nothing
// written goes through all batches once at most, others begin again.
func (c *caller) repeat(ctx context.Context, k kind, end time.Time, times *latency.Histogram) (int, error) {
	once := k.whole || c.written == 0
	limit := c.written
	if c.written == 0 {
		limit = len(c.keys)
	}
	for n := 0; ; n++ {
		now := time.Now()
		if once && n == limit || !k.whole && n > 0 && !now.Before(end) {
			return n, nil
		}
		if err := k.call(ctx, c, n%limit); err != nil {
			return n, err
		}
		record(times, now)
	}
}

func firstResult[T any](got []model.Result[T], err error) error {
	for i := range got {
		if err == nil {
			err = got[i].Err
		}
	}
	return err
}

func firstError(got []error, err error) error {
	for i := range got {
		if err == nil {
			err = got[i]
		}
	}
	return err
}
