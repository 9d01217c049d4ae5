package tiers

import (
	"context"
	"slices"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// bent is a tier with some of its methods changed. Each function that is nil changes nothing.
type bent struct {
	tier.Tier
	path   string
	start  func(context.Context) error // before the tier starts
	begun  func(context.Context)       // once the tier has started
	stop   func()                      // once the tier has stopped
	volume func(*tier.Volume)
	// submit changes an operation before the tier gets it, accepted the number that the caller is told.
	submit   func(*tier.Op)
	accepted func(int) int
	// divert reports whether it takes an operation, which the tier does not get then.
	divert func(tier.Op) bool
	// complete changes a completion before the caller gets it, if the caller does get it.
	complete func(tier.Op, *tier.Completion) (drop bool)
	forget   func([]tier.Locator) []tier.Locator
	scan     func(tier.Cursor, []tier.Found) (int, tier.Cursor, error)
	stats    func(*tier.Stats)

	mu      sync.Mutex // of submit and complete
	flights map[uint64]tier.Op
}

// Start implements plugin.Component.
func (b *bent) Start(ctx context.Context, h plugin.Host) error {
	if b.start != nil {
		if err := b.start(ctx); err != nil {
			return err
		}
	}
	err := b.Tier.Start(ctx, h)
	if b.begun != nil && err == nil {
		b.begun(ctx)
	}
	return err
}

// Stop implements plugin.Component.
func (b *bent) Stop(ctx context.Context) error {
	err := b.Tier.Stop(ctx)
	if b.stop != nil {
		b.stop()
	}
	return err
}

// Volume implements tier.Tier.
func (b *bent) Volume() tier.Volume {
	v := b.Tier.Volume()
	if b.volume != nil {
		b.volume(&v)
	}
	return v
}

// Submit implements tier.Tier.
func (b *bent) Submit(ops []tier.Op) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	asked := slices.Clone(ops)
	for i := range ops {
		asked[i].Record.Key = slices.Clone(ops[i].Record.Key)
	}
	ops = slices.Clone(asked)
	for i := range ops {
		if b.submit != nil {
			b.submit(&ops[i])
		}
	}
	if b.divert != nil && len(ops) > 0 && b.divert(ops[0]) {
		b.flights[ops[0].ID] = asked[0]
		return 1, nil // The caller submits the rest again.
	}
	if b.divert != nil && len(ops) > 1 {
		ops = ops[:1]
	}
	n, err := b.Tier.Submit(ops)
	for _, o := range asked[:n] {
		b.flights[o.ID] = o
	}
	if b.accepted != nil && err == nil {
		n = b.accepted(n)
	}
	return n, err
}

// Reap implements tier.Tier.
func (b *bent) Reap(ctx context.Context, dst []tier.Completion) (int, error) {
	for {
		n, err := b.Tier.Reap(ctx, dst)
		if n == 0 {
			return 0, err
		}
		if kept := b.completed(dst[:n]); kept > 0 {
			return kept, err
		}
	}
}

func (b *bent) completed(got []tier.Completion) (kept int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range got {
		o := b.flights[c.ID]
		if c.Status != tier.Quarantined {
			delete(b.flights, c.ID)
		}
		if b.complete != nil && b.complete(o, &c) {
			continue
		}
		got[kept] = c
		kept++
	}
	return kept
}

// Forget implements tier.Tier.
func (b *bent) Forget(ctx context.Context, at []tier.Locator) error {
	if b.forget != nil {
		at = b.forget(slices.Clone(at))
	}
	return b.Tier.Forget(ctx, at)
}

// Scan implements tier.Tier.
func (b *bent) Scan(ctx context.Context, from tier.Cursor, dst []tier.Found) (int, tier.Cursor, error) {
	if b.scan != nil && len(dst) > 0 {
		return b.scan(from, dst)
	}
	return b.Tier.Scan(ctx, from, dst)
}

// Stats implements tier.Tier.
func (b *bent) Stats(ctx context.Context) (tier.Stats, error) {
	st, err := b.Tier.Stats(ctx)
	if b.stats != nil && err == nil {
		b.stats(&st)
	}
	return st, err
}

// reads changes the bytes of reads that are OK.
func (b *bent) reads(change func(o tier.Op, bytes []byte)) {
	b.complete = func(o tier.Op, c *tier.Completion) bool {
		if o.Kind == tier.Read && c.Status == tier.OK {
			change(o, o.Local[0])
		}
		return false
	}
}
