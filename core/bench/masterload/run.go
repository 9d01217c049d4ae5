package masterload

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/measure"
	"github.com/mooncake-go/mooncake/core/model"
)

// loader is one client of the load.
type loader struct {
	*load
	n              int
	next           int // its next new key
	rng            *rand.Rand
	put, get, look *measure.Histogram
	keys           int
}

// run loads the full master: each client looks up a prompt, reads it, and writes new
// pages, for which others must go.
func (l *load) run(ctx context.Context, r *Report) error {
	var (
		wg      sync.WaitGroup
		loaders = make([]*loader, l.Clients)
		fail    = make([]error, l.Clients)
		before  runtime.MemStats
		after   runtime.MemStats
	)
	runtime.ReadMemStats(&before)
	began := time.Now()
	end := began.Add(l.Time)
	for i := range loaders {
		loaders[i] = &loader{
			load: l, n: i + 1, rng: rand.New(rand.NewPCG(uint64(i), 1)),
			put: measure.NewHistogram(), get: measure.NewHistogram(), look: measure.NewHistogram(),
		}
		wg.Go(func() {
			for { // One round at least, however late it begins.
				if fail[i] = loaders[i].round(ctx); fail[i] != nil || !time.Now().Before(end) {
					return
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	put, get, look := measure.NewHistogram(), measure.NewHistogram(), measure.NewHistogram()
	keys := 0
	for _, c := range loaders {
		put.Merge(c.put)
		get.Merge(c.get)
		look.Merge(c.look)
		keys += c.keys
	}
	r.KeysPerSecond = float64(keys) / took.Seconds()
	if keys > 0 {
		r.AllocatedPerKey = float64(after.TotalAlloc-before.TotalAlloc) / float64(keys)
	}
	r.GCPause = time.Duration(after.PauseTotalNs - before.PauseTotalNs)
	r.Collections = int(after.NumGC - before.NumGC)
	r.Calls = []Call{call("Exist", look), call("GetReplicas", get), call("PutStart, PutEnd", put)}
	return errors.Join(fail...)
}

// round is one prompt: a lookup of a batch, a read of it, and a batch of new pages.
func (c *loader) round(ctx context.Context) error {
	keys := make([]model.Key, c.Batch)
	from := c.rng.IntN(c.Keys)
	for i := range keys {
		keys[i] = key(0, (from+i)%c.Keys)
	}
	caller := model.Caller{Client: c.client}
	t0 := time.Now()
	if _, err := c.Load.Exist(ctx, caller, keys); err != nil {
		return err
	}
	record(c.look, t0)
	t0 = time.Now()
	if _, err := c.Load.GetReplicas(ctx, caller, keys, nil); err != nil {
		return err
	}
	record(c.get, t0)
	err := c.load.put(ctx, c.Load, c.n, c.next, c.next+c.Batch, c.put)
	c.next += c.Batch
	c.keys += 4 * c.Batch
	return err
}
