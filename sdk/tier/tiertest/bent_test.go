package tiertest_test

import (
	"context"
	"slices"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// bent is a tier with some of its methods changed. Each function that is nil changes nothing.
type bent struct {
	tier.Tier
	start      func() error
	stop       func(context.Context) error
	volume     func(*tier.Volume)
	deregister func(context.Context, tier.RegionID) error
	register   func(error) error
	submit     func(*tier.Op)              // of each operation, before the tier gets it
	accept     func([]tier.Op) int         // how many operations are taken here; the tier gets the others
	reap       func(context.Context) error // before the tier is asked
	complete   func(tier.Op, *tier.Completion) (drop bool)
	forget     func([]tier.Locator) error // before the tier is asked
	scan       func(tier.Cursor, []tier.Found) (int, tier.Cursor, error)
	flush      func() error
	wipe       func(context.Context) error
	stats      func(*tier.Stats, error) error

	mu      sync.Mutex
	flights map[uint64]tier.Op
	written map[tier.Locator]tier.Record
}

func (b *bent) Start(ctx context.Context, h plugin.Host) error {
	if b.start != nil {
		if err := b.start(); err != nil {
			return err
		}
	}
	return b.Tier.Start(ctx, h)
}

func (b *bent) Stop(ctx context.Context) error {
	if b.stop != nil {
		return b.stop(ctx)
	}
	return b.Tier.Stop(ctx)
}

func (b *bent) Volume() tier.Volume {
	v := b.Tier.Volume()
	if b.volume != nil {
		b.volume(&v)
	}
	return v
}

func (b *bent) Register(ctx context.Context, r tier.Region) error {
	err := b.Tier.Register(ctx, r)
	if b.register != nil {
		return b.register(err)
	}
	return err
}

func (b *bent) Deregister(ctx context.Context, id tier.RegionID) error {
	if b.deregister != nil {
		return b.deregister(ctx, id)
	}
	return b.Tier.Deregister(ctx, id)
}

func (b *bent) Submit(ops []tier.Op) (int, error) {
	taken := 0
	if b.accept != nil {
		taken = b.accept(ops)
	}
	ops = slices.Clone(ops[taken:])
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range ops {
		if b.submit != nil {
			b.submit(&ops[i])
		}
	}
	n, err := b.Tier.Submit(ops)
	for _, o := range ops[:n] {
		b.flights[o.ID] = o
	}
	return taken + n, err
}

func (b *bent) Reap(ctx context.Context, dst []tier.Completion) (int, error) {
	if b.reap != nil {
		if err := b.reap(ctx); err != nil {
			return 0, err
		}
	}
	for {
		n, err := b.Tier.Reap(ctx, dst)
		got := b.completed(dst[:n])
		if len(got) > 0 || n == 0 {
			return len(got), err
		}
	}
}

func (b *bent) completed(got []tier.Completion) []tier.Completion {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(got, func(c tier.Completion) bool { return b.drops(got, c) })
}

// drops changes a completion in place, and reports whether the caller does not get it.
func (b *bent) drops(got []tier.Completion, c tier.Completion) bool {
	i := slices.IndexFunc(got, func(x tier.Completion) bool { return x == c })
	o := b.flights[c.ID]
	if c.Status != tier.Quarantined {
		delete(b.flights, c.ID)
	}
	if c.Status == tier.OK && o.Kind == tier.Write {
		r := o.Record
		r.Key = slices.Clone(r.Key)
		b.written[c.At] = r
	}
	return b.complete != nil && b.complete(o, &got[i])
}

func (b *bent) Forget(ctx context.Context, at []tier.Locator) error {
	if b.forget != nil {
		if err := b.forget(at); err != nil {
			return err
		}
	}
	return b.Tier.Forget(ctx, at)
}

func (b *bent) Scan(ctx context.Context, from tier.Cursor, dst []tier.Found) (int, tier.Cursor, error) {
	if b.scan != nil {
		return b.scan(from, dst)
	}
	return b.Tier.Scan(ctx, from, dst)
}

func (b *bent) Flush(ctx context.Context) error {
	if b.flush != nil {
		return b.flush()
	}
	return b.Tier.Flush(ctx)
}

func (b *bent) Wipe(ctx context.Context) error {
	if b.wipe != nil {
		return b.wipe(ctx)
	}
	return b.Tier.Wipe(ctx)
}

func (b *bent) Stats(ctx context.Context) (tier.Stats, error) {
	st, err := b.Tier.Stats(ctx)
	if b.stats != nil {
		err = b.stats(&st, err)
	}
	return st, err
}

var errBug = errs.New(errs.Internal, "", "the bug says so")

// touches makes a function that writes to the memory of all Reads of at least 1000 bytes since the
// last call. It bends Submit, which notes them.
func (b *bent) touches() (touch func()) {
	var mu sync.Mutex
	var mem [][]byte
	b.submit = func(o *tier.Op) {
		mu.Lock()
		defer mu.Unlock()
		if o.Kind == tier.Read && len(o.Local[0]) >= 1000 {
			mem = append(mem, o.Local[0])
		}
	}
	return func() {
		mu.Lock()
		defer mu.Unlock()
		for _, m := range mem {
			m[0]++
		}
		mem = nil
	}
}
