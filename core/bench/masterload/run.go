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
	"github.com/mooncake-go/mooncake/sdk/errs"
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
	stop := l.walk(ctx)
	loaders := make([]*loader, l.Clients)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	took, _, err := measure.Threads(l.Clients, func(i int, began time.Time, _ *measure.Histogram) error {
		loaders[i] = &loader{
			load: l, n: i + 1, rng: rand.New(rand.NewPCG(uint64(i), 1)),
			put: measure.NewHistogram(), get: measure.NewHistogram(), look: measure.NewHistogram(),
		}
		for { // One round at least, however late it begins.
			if err := loaders[i].round(ctx); err != nil || time.Since(began) >= l.Time {
				return err
			}
		}
	})
	walks, failed := stop()
	err = errors.Join(err, failed)
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
	r.Calls = append([]Call{call("Exist", look), call("GetReplicas", get), call("PutStart, PutEnd", put)}, walks...)
	return err
}

// walk has a client list and remove keys that are not there, which takes a walk through the table each, until stop is called, where
// that is asked for. stop returns how long these calls took.
func (l *load) walk(ctx context.Context) (stop func() ([]Call, error)) {
	if l.Walk == nil {
		return func() ([]Call, error) { return nil, nil }
	}
	const nothing = "^no such key$"
	ctx, cancel := context.WithCancel(ctx)
	caller := model.Caller{Client: l.client}
	list, remove := measure.NewHistogram(), measure.NewHistogram()
	done, once := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(done)
		for seen := sync.OnceFunc(func() { close(once) }); ; seen() {
			t0 := time.Now()
			if _, err := l.Walk.ListKeys(ctx, caller, nothing, "", 1); err != nil {
				done <- err
				return
			}
			record(list, t0)
			t0 = time.Now()
			if _, err := l.Walk.RemoveByRegex(ctx, caller, nothing, false); err != nil {
				done <- err
				return
			}
			record(remove, t0)
		}
	}()
	return func() ([]Call, error) {
		ended := ctx.Err() != nil
		var err error
		select { // Where the load leaves it no processor, the first calls end after the load.
		case <-once:
			cancel()
			err = <-done
		case err = <-done:
			cancel()
		}
		if ended || errs.Is(err, errs.RPCTimeout) || errors.Is(err, context.Canceled) {
			err = nil // It ended because the load did.
		}
		return []Call{call("ListKeys, all", list), call("RemoveByRegex, all", remove)}, err
	}
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
