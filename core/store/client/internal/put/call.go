// Package put writes objects: it asks the master for space, writes all replicas in parallel, and makes
// the objects readable only when every byte is in place.
package put

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/sealkeys"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/client/internal/base"
	"github.com/mooncake-go/mooncake/core/store/internal/fragment"
	"github.com/mooncake-go/mooncake/core/store/session"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	// maxPooled bounds the items of a call whose memory later calls reuse.
	maxPooled = 4096
	// retries bounds the attempts at a put after the first. The master may name a node that is gone a
	// few times more, until enough clients have reported it.
	retries = 8
	// startRetries bounds those of a put that did not begin, because a node did not confirm where it
	// writes. Each takes a second where another node does not either.
	startRetries = 2
	// firstPause and longestPause bound the pauses before the second and later retries. A full pool often gives a put the space
	// that it has just given back, on the node that failed; a node that restarts its transport is back after some of them.
	firstPause   = 25 * time.Millisecond
	longestPause = 400 * time.Millisecond
)

// Writer puts objects for one client.
type Writer struct {
	*base.Base
	forget  func([]model.Key) // removes keys from the hot cache
	calls   sync.Pool
	ends    ends
	staging *staging // of ciphertext, nil without
}

// New makes a writer. forget is called for keys whose value may change.
func New(b *base.Base, forget func([]model.Key)) *Writer {
	w := &Writer{Base: b, forget: forget}
	if b.Seal != nil && b.Seal.Encrypts() {
		w.staging = newStaging(b)
	}
	return w
}

// Close ends what the writer has. There are no calls in progress, and no later ones.
func (w *Writer) Close(ctx context.Context) error { return w.staging.close(ctx) }

// Call is the memory of one put. It is pooled, so it holds nothing that the caller keeps or that
// outlives the put. Its items name replicas in answer, until the next Start.
type Call struct {
	// In are the objects to put.
	In []store.Item
	// Of has the item of each input. Inputs of one key share an item.
	Of []*Item

	w     *Writer
	one   [1][]byte // the backing array of the fragments of one value
	items []Item
	todo  []*Item // items to put
	byKey map[model.Key]*Item
	keys  []model.Key

	want     []model.PutItem
	started  []*Item
	answer   model.Answer[[]model.Replica]
	requests []transfer.Request
	owner    []*Item // of requests
	results  []transfer.Result
	done     []*Item
	ends     []model.EndItem
	ended    []error

	right session.WriteRight // of the puts
	until func() time.Time   // by when an operation has to end

	checksums fragment.Checksums
	grains    fragment.Grains
	leaked    bool // a transport may still store checksums of grains
	computing sync.WaitGroup
	sealing   sealing
	compute   func() // computes the checksums in the background
	summing   func() // computes those of grains
}

// Call returns a call with n empty inputs, which Release ends.
func (w *Writer) Call(n int) *Call {
	c, ok := w.calls.Get().(*Call)
	if !ok {
		c = &Call{w: w}
		c.compute = func() {
			defer c.computing.Done()
			c.checksums.Compute()
		}
		c.summing = func() {
			defer c.computing.Done()
			c.grains.Compute()
		}
		c.until = func() time.Time { return w.Session.WriteUntil(c.right) }
	}
	c.In = slices.Grow(c.In[:0], n)[:n]
	return c
}

// Release makes the memory available to other calls. It clears it first, so that the pool keeps no
// memory of callers alive.
func (c *Call) Release() {
	if cap(c.items) > maxPooled || cap(c.requests) > maxPooled {
		return
	}
	clear(c.In)
	clear(c.one[:])
	clear(c.items)
	clear(c.Of)
	clear(c.todo)
	clear(c.byKey)
	clear(c.keys)
	clear(c.want)
	clear(c.started)
	clear(c.requests)
	clear(c.owner)
	clear(c.results)
	clear(c.done)
	clear(c.ends)
	clear(c.ended)
	c.checksums.Reset()
	c.resetGrains()
	c.sealing.key = sealkeys.Key{}
	c.w.calls.Put(c)
}

// SetOne sets the only input. It allocates nothing.
func (c *Call) SetOne(key model.Key, value []byte) {
	c.one[0] = value
	c.In[0] = store.Item{Key: key, Value: c.one[:]}
}

// Do puts the inputs and records the operation op. The items have the results.
func (c *Call) Do(ctx context.Context, op string, cfg model.ReplicateConfig) {
	w := c.w
	c.prepare(cfg.Upsert)
	if err := w.Calls.Enter("store"); err != nil {
		for _, it := range c.Of {
			it.Err = err
		}
		return
	}
	defer w.Calls.Leave()
	t0 := time.Now()
	if cfg.HostID == "" {
		cfg.HostID = w.Host
	}
	if cfg.Upsert {
		op = "upsert"
	}
	base.InBatches(len(c.todo), w.Config.MaxBatch, func(lo, hi int) {
		w.WaitForSpace(ctx, c.todo[lo:hi], func(items []*Item) { c.sealed(ctx, items, func(items []*Item) { c.retry(ctx, items, cfg) }) })
	})
	bytes := uint64(0)
	for _, it := range c.Of {
		if it.Err == nil && !it.Existed {
			bytes += it.plain
		}
	}
	w.Metrics.Writes.Done(op, bytes, t0)
}

// prepare makes the item of each input. Of several values for one key the first counts, or the last.
func (c *Call) prepare(last bool) {
	n := len(c.In)
	c.items, c.Of, c.todo, c.keys = slices.Grow(c.items[:0], n)[:n], c.Of[:0], c.todo[:0], c.keys[:0]
	if n > 1 && c.byKey == nil {
		c.byKey = make(map[model.Key]*Item, n)
	}
	for i := range c.In {
		in, it := &c.In[i], &c.items[i]
		c.keys = append(c.keys, in.Key)
		if n > 1 {
			if first := c.byKey[in.Key]; first != nil {
				if c.Of = append(c.Of, first); last {
					first.set(in)
				}
				continue
			}
			c.byKey[in.Key] = it
		}
		it.set(in)
		c.Of = append(c.Of, it)
	}
	for i, it := range c.Of {
		if it.Err == nil && it == &c.items[i] {
			c.todo = append(c.todo, it)
		}
	}
	c.w.forget(c.keys)
}

// WaitForSpace puts items, and those that found no space again until AllocWait is over.
func (w *Writer) WaitForSpace(ctx context.Context, items []*Item, put func([]*Item)) {
	end := time.Now().Add(w.Config.AllocWait)
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		put(items)
		var full []*Item
		for _, it := range items {
			if errs.Is(it.Err, errs.NoAvailableHandle) && errs.ClassOf(it.Err).Retryable() {
				full = append(full, it)
			}
		}
		if len(full) == 0 || !time.Now().Add(pause).Before(end) {
			w.Metrics.NoSpace.Add(float64(len(full)))
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		items = full
	}
}

// retry starts, writes and ends items. It retries the items whose transfers are indeterminate, as
// when the process of a transport dies, in a new allocation, and those that fail because a node is
// gone or does not answer the master, a few times. All attempts share one deadline for the transfers.
func (c *Call) retry(ctx context.Context, items []*Item, cfg model.ReplicateConfig) {
	w := c.w
	for try := 0; len(items) > 0; try++ {
		var again []*Item
		for _, it := range c.attempt(ctx, items, cfg) {
			if try < most(it) && !(it.indeterminate && it.wasIndeterminate) && ctx.Err() == nil && time.Now().Before(it.deadline) {
				again = append(again, it)
			}
		}
		if len(again) > 0 {
			w.Log.Warn("the client retries puts elsewhere: their transfers are indeterminate, or the node is gone or silent, or a new master took over",
				"keys", len(again), "attempt", try+2, "error", again[0].Err)
			w.Metrics.Repeated.Add(float64(len(again)))
		}
		for _, it := range again {
			it.wasIndeterminate = it.wasIndeterminate || it.indeterminate
			it.again, it.indeterminate, it.nodeGone, it.unconfirmed, it.Replicas = true, false, false, false, nil
		}
		if try > 0 && len(again) > 0 {
			select {
			case <-time.After(min(firstPause<<(try-1), longestPause)):
			case <-ctx.Done():
			}
		}
		items = again
	}
}

// most is how often a put may be tried again.
func most(it *Item) int {
	if it.unconfirmed {
		return startRetries
	}
	return retries
}

// attempt returns the items that failed and may be put elsewhere.
func (c *Call) attempt(ctx context.Context, items []*Item, cfg model.ReplicateConfig) (movable []*Item) {
	started := c.Start(ctx, items, cfg)
	defer c.w.Over(started...)
	if len(started) < len(items) && len(cfg.PreferredSegments) == 0 { // The master would name preferred ones again.
		deadline := c.w.Config.WriteDeadline(time.Now())
		for _, it := range items {
			if it.unconfirmed {
				if !it.again {
					it.deadline = deadline
				}
				movable = append(movable, it)
			}
		}
	}
	if len(started) == 0 {
		return movable
	}
	c.seal(started)
	c.write(ctx, started)
	limit := time.Now().Add(c.w.Config.FinishTimeout)
	if c.End(ctx, started, limit); !slices.ContainsFunc(started, (*Item).failed) {
		return movable
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), limit)
	defer cancel()
	return append(movable, c.w.Revoke(ctx, started)...)
}
