package reference

import (
	"context"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// workers is how many operations are at the storage at once.
const workers = 4

func newNode(c Config, b *Backing) *node {
	n := &node{
		cfg: c, disk: b, abort: make(chan struct{}), ended: make(chan struct{}), news: make(chan struct{}),
		regions: map[tier.RegionID]*region{}, open: map[*op]struct{}{},
	}
	n.wake = sync.NewCond(&n.mu)
	return n
}

// Start implements plugin.Component.
func (n *node) Start(ctx context.Context, _ plugin.Host) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if n.state != created {
		return errs.New(errs.UnavailableInCurrentStatus, "start", "the tier was started or stopped before")
	}
	n.state = running
	for range workers {
		n.work.Go(n.run)
	}
	return nil
}

// Stop implements plugin.Component.
func (n *node) Stop(ctx context.Context) error {
	n.mu.Lock()
	if n.state >= stopping {
		n.mu.Unlock()
		<-n.ended
		return nil
	}
	n.state = stopping
	n.mu.Unlock()
	n.drain(ctx)
	close(n.abort)
	n.mu.Lock()
	n.state = stopped
	n.regions = nil
	n.wake.Broadcast()
	n.mu.Unlock()
	n.work.Wait()
	n.mu.Lock()
	for o := range n.open { // No worker took it.
		n.finish(o, tier.Locator{}, false, failed(errs.UnavailableInCurrentStatus, errs.ClassUnknown, "the tier was stopped"))
	}
	n.notify()
	n.mu.Unlock()
	if n.survives {
		n.disk.flush()
	}
	close(n.ended)
	return nil
}

// drain waits until each operation has ended or the context has. Every operation has a deadline.
func (n *node) drain(ctx context.Context) {
	for {
		n.mu.Lock()
		left, news := n.unended, n.news
		n.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-news:
		case <-ctx.Done():
			return
		}
	}
}
