// Package s3 is the storage tier tier/s3: it keeps each record as an object of an S3-compatible store. It is the example of
// docs/plugins/tier.md.
//
// Read it in this order: store.go has the records, bucket.go the requests, litter.go what is removed in the background,
// record.go the form of an object. tier.go, queue.go and region.go are those of `mooncake plugins new tier`, but for the
// context that each operation has.
package s3

import (
	"context"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

const (
	// window is how many operations are accepted before their completions are reaped.
	window = 512
	// grace is how long Stop tries to remove what Writes that were given up may leave.
	grace = time.Second
	// maxObject is the size of the largest object that one request can write.
	maxObject = 5 << 30
)

type state uint8

const (
	created state = iota
	starting
	running
	stopping
	stopped
)

// node implements tier.Tier.
type node struct {
	cfg     Config
	store   *store          // from Start on
	life    context.Context // ends when Stop gives up what has not ended
	end     context.CancelCauseFunc
	working sync.WaitGroup
	stops   sync.Mutex

	mu      sync.Mutex
	state   state
	regions map[tier.RegionID]*region
	queue
}

func newNode(c *Config) *node {
	n := &node{cfg: *c, regions: map[tier.RegionID]*region{}}
	n.life, n.end = context.WithCancelCause(context.Background())
	n.queue = newQueue(&n.mu)
	return n
}

// Start implements plugin.Component.
func (n *node) Start(ctx context.Context, host plugin.Host) error {
	const op = "tier/s3: start"
	n.mu.Lock()
	was := n.state
	if was == created {
		n.state = starting
	}
	n.mu.Unlock()
	switch {
	case was != created:
		return errs.New(errs.UnavailableInCurrentStatus, op, "the tier was started or stopped before")
	case n.cfg.Endpoint == "" || n.cfg.Bucket == "":
		n.become(starting, created)
		return errs.New(errs.InvalidParams, op, "endpoint and bucket must be set")
	}
	ctx, cancel := n.bound(ctx)
	defer cancel()
	s, err := openStore(ctx, &n.cfg)
	if err != nil {
		n.become(starting, created)
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state != starting {
		s.bucket.close()
		return stoppedErr(op)
	}
	n.store, n.state = s, running
	for range n.cfg.Requests {
		n.working.Go(n.run)
	}
	n.working.Go(func() { s.tidy(n.life) })
	host.Logger().Info("ready", "endpoint", n.cfg.Endpoint, "bucket", n.cfg.Bucket, "prefix", n.cfg.Prefix, "records", len(s.records))
	return nil
}

func (n *node) become(from, to state) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state == from {
		n.state = to
	}
}

func stoppedErr(op string) error {
	return errs.New(errs.UnavailableInCurrentStatus, op, "the tier was stopped")
}

// Stop implements plugin.Component.
func (n *node) Stop(ctx context.Context) error {
	n.stops.Lock()
	defer n.stops.Unlock()
	n.mu.Lock()
	was := n.state
	n.state = stopping
	if was != running {
		n.state = stopped
		n.notify()
	}
	n.mu.Unlock()
	if was == running {
		n.drain(ctx)
	}
	n.end(stoppedErr("tier/s3"))
	if was != running {
		return nil
	}
	n.drain(context.Background()) // Each request returns when its context ends.
	n.mu.Lock()
	n.ended = true
	n.work.Broadcast()
	n.mu.Unlock()
	n.working.Wait()
	last, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	_ = n.store.blockAll(last) // Else the next start may find records of Writes that were given up, as after a kill.
	n.store.bucket.close()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.state, n.regions = stopped, nil
	n.notify()
	return nil
}

// alive returns an error if the tier does not run, or the context has ended. The caller holds mu.
func (n *node) alive(ctx context.Context, op string) error {
	if n.state != running {
		return errs.New(errs.UnavailableInCurrentStatus, "tier/s3: "+op, "the tier does not run")
	}
	return ctx.Err()
}

// bound returns a context that also ends when Stop gives up.
func (n *node) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(n.life, func() { cancel(context.Cause(n.life)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// ask runs f if the tier runs.
func (n *node) ask(ctx context.Context, op string, f func(context.Context) error) error {
	n.mu.Lock()
	err := n.alive(ctx, op)
	n.mu.Unlock()
	if err != nil {
		return err
	}
	ctx, cancel := n.bound(ctx)
	defer cancel()
	return f(ctx)
}

// Volume implements tier.Tier.
func (n *node) Volume() tier.Volume {
	v := n.store.current()
	return tier.Volume{ID: v.ID, Generation: v.Generation, Capacity: n.cfg.CapacityBytes, MaxRecord: n.maxRecord(), Align: 1}
}

func (n *node) maxRecord() uint64 {
	return min(n.cfg.CapacityBytes, maxObject) - headSize - tier.MaxKey
}

// Space implements tier.Tier.
func (n *node) Space(r tier.Record) uint64 { return space(r) }

// Forget implements tier.Tier.
func (n *node) Forget(ctx context.Context, at []tier.Locator) error {
	return n.ask(ctx, "forget", func(ctx context.Context) error { return n.store.forget(ctx, at) })
}

// Scan implements tier.Tier.
func (n *node) Scan(ctx context.Context, from tier.Cursor, dst []tier.Found) (found int, next tier.Cursor, err error) {
	next = from
	err = n.ask(ctx, "scan", func(ctx context.Context) error {
		if len(dst) == 0 {
			return errs.New(errs.InvalidParams, "tier/s3: scan", "there is no place for records")
		}
		found, next, err = n.store.scan(ctx, from, dst)
		return err
	})
	return found, next, err
}

// Flush implements tier.Tier.
func (n *node) Flush(ctx context.Context) error { return n.ask(ctx, "flush", n.store.flush) }

// Wipe implements tier.Tier.
func (n *node) Wipe(ctx context.Context) error { return n.ask(ctx, "wipe", n.store.wipe) }

// Stats implements tier.Tier.
func (n *node) Stats(ctx context.Context) (st tier.Stats, err error) {
	err = n.ask(ctx, "stats", func(context.Context) error {
		st = n.store.stats()
		n.mu.Lock()
		defer n.mu.Unlock()
		n.count(&st)
		return nil
	})
	return st, err
}
