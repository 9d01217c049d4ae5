package masterload

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/measure"
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
		got, err := c.master.PutStart(ctx, c.self, c.batches[i].Puts, model.DefaultReplicateConfig(), nil)
		c.written = i + 1
		return FirstResult(got, err)
	}},
	{name: "PutEnd", whole: true, call: func(ctx context.Context, c *caller, i int) error {
		got, err := c.master.PutEnd(ctx, c.self, c.batches[i].Ends, nil)
		return FirstError(got, err)
	}},
	{name: "Exist", call: func(ctx context.Context, c *caller, i int) error {
		got, err := c.master.Exist(ctx, c.self, c.batches[i].Keys)
		return FirstResult(got, err)
	}},
	{name: "GetReplicas", call: func(ctx context.Context, c *caller, i int) error {
		got, err := c.master.GetReplicas(ctx, c.self, c.batches[i].Keys, nil)
		return FirstResult(got, err)
	}},
	{name: "Remove", whole: true, call: func(ctx context.Context, c *caller, i int) error {
		got, err := c.master.Remove(ctx, c.self, c.batches[i].Keys, true)
		return FirstError(got, err)
	}},
}

// caller is one thread with its batches, which are made before anything is timed.
type caller struct {
	master  CallMaster
	self    model.Caller
	batches []Batch
	written int // batches that were put
}

func newCaller(o CallsOptions, client model.ClientID, n, batches, batch int) *caller {
	c := &caller{master: o.Master, self: model.Caller{Client: client}}
	for i := range batches {
		c.batches = append(c.batches, NewBatch(func(i int) model.Key { return key(n, i) }, i*batch, (i+1)*batch, PageSize))
	}
	return c
}

// repeat makes calls until end, and returns how many. A kind that begins with nothing
// written goes through all batches once at most, others begin again.
func (c *caller) repeat(ctx context.Context, k kind, end time.Time, times *measure.Histogram) (int, error) {
	once := k.whole || c.written == 0
	limit := c.written
	if c.written == 0 {
		limit = len(c.batches)
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
