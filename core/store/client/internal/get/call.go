// Package get reads objects: it locates them, reads the nearest replica directly into the caller's
// memory, verifies it, and goes on with the next replica if that fails.
package get

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/client/internal/base"
	"github.com/mooncake-go/mooncake/core/store/client/internal/lease"
	"github.com/mooncake-go/mooncake/core/store/hotcache"
	"github.com/mooncake-go/mooncake/core/store/internal/fragment"
	"github.com/mooncake-go/mooncake/core/store/internal/seal"
	"github.com/mooncake-go/mooncake/core/transfer"
)

// maxPooled bounds the items of a call whose memory later calls reuse.
const maxPooled = 4096

// Reader reads objects for one client.
type Reader struct {
	*base.Base
	leases *lease.Table
	hot    *hotcache.Cache // nil when off
	calls  sync.Pool

	releases releases
}

// New makes a reader.
func New(b *base.Base, leases *lease.Table) *Reader {
	r := &Reader{Base: b, leases: leases}
	if b.Config.HotCache.Size > 0 {
		r.hot = hotcache.New(b.Config.HotCache, r.fill)
	}
	return r
}

// Cache returns the hot cache, nil when it is off.
func (r *Reader) Cache() *hotcache.Cache { return r.hot }

// Close waits for the calls that the reader makes in the background, in bounded time. There are no later ones.
func (r *Reader) Close() { r.releases.close() }

// Call is the memory of one read. It is pooled, so it holds nothing that the caller keeps or that
// outlives the read. Its items name replicas in answer.
type Call struct {
	// Items are the objects to read.
	Items []Item

	r         *Reader
	todo      []*Item
	found     []*Item // items that have a replica to read
	arrived   []*Item
	refused   []*Item // items to try again in a moment, see refusing
	ready     []*Item // to transfer now, and behind them the others
	staging   *wave   // what nodes stage, nil for nothing
	moving    *wave   // what they staged for the transfer in progress
	moved     *wave   // what they staged for the one before
	keys      []model.Key
	answer    model.Answer[model.Object]
	requests  []transfer.Request
	results   []transfer.Result
	checksums fragment.Checksums
	grains    fragment.Grains
	parts     []store.Fragment // of covers
	scratch   []byte           // of covers and trailers
	leaked    bool             // a transport may still touch the memory of covers
	opening   seal.Work
	renewer   renewer
}

// Call returns a call with n empty items, which Release ends.
func (r *Reader) Call(n int) *Call {
	c, ok := r.calls.Get().(*Call)
	if !ok {
		c = &Call{r: r}
	}
	c.Items = slices.Grow(c.Items[:0], n)[:n]
	return c
}

// Release makes the memory available to other calls. It clears it first, so that the pool keeps no
// memory of callers alive.
func (c *Call) Release() {
	if cap(c.Items) > maxPooled || cap(c.found) > maxPooled {
		return
	}
	clear(c.Items)
	clear(c.todo)
	clear(c.found)
	clear(c.arrived)
	clear(c.ready[:cap(c.ready)])
	c.moved = nil
	clear(c.keys)
	clear(c.requests)
	clear(c.results)
	c.checksums.Reset()
	c.uncover()
	c.r.calls.Put(c)
}

// Do reads the items and records the operation op.
func (c *Call) Do(ctx context.Context, op string) {
	r := c.r
	if err := r.Calls.Enter("store"); err != nil {
		for i := range c.Items {
			c.Items[i].Err = err
		}
		return
	}
	defer r.Calls.Leave()
	t0 := time.Now()
	c.todo = c.todo[:0]
	for i := range c.Items {
		it := &c.Items[i]
		if it.Err = model.ValidateSought(it.Key); it.Err == nil {
			c.todo = append(c.todo, it)
		}
	}
	base.InBatches(len(c.todo), r.Config.MaxBatch, func(lo, hi int) { c.read(ctx, c.todo[lo:hi]) })
	bytes := uint64(0)
	for i := range c.Items {
		bytes += uint64(c.Items[i].Size())
	}
	r.Metrics.Reads.Done(op, bytes, t0)
}
