package tiertest_test

import (
	"context"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/tier/tiertest/reference"
)

// lifecycleBugs break what every component promises, and what starts and stops do.
func lifecycleBugs() map[string]bug {
	return map[string]bug{
		"the next process has no regions": {finds: finds("a killed process"), mortal: func(m *mortal) { m.forgets = true }},
		"an end leaves halves":            {finds: finds("records after a killed process"), mortal: func(*mortal) {}, bend: halves},
		"each call leaves a goroutine":    {finds: finds("leaks of calls"), alone: true, bend: func(b *bent) { b.submit = func(*tier.Op) { end := leakEnd; leaked.Go(func() { <-end }) } }},
		"an end loses what is in flight":  {finds: finds("a killed process"), hangs: true, mortal: func(m *mortal) { m.loses = true }},
		"it does not start":               {finds: finds("start and stop"), bend: func(b *bent) { b.start = func() error { return errBug } }},
		"a setting in the manifest only":  {finds: finds("manifest and program"), manifest: func(m *plugin.Manifest) { m.ConfigSchema = []byte(`{"properties":{"gone":{"type":"integer"}}}`) }},
		"no version in common":            {finds: finds("manifest"), manifest: func(m *plugin.Manifest) { m.API = []uint{99} }},
		"any configuration":               {finds: finds("configuration"), foreign: true},
		"stop needs a start":              {finds: finds("stop before start"), bend: func(b *bent) { stops(b, func(n int, started, _ bool) bool { return n == 1 && !started }) }},
		"the third stop fails":            {finds: finds("stop twice and at once"), bend: func(b *bent) { stops(b, func(n int, _, _ bool) bool { return n >= 3 }) }},
		"one given up is all":             {finds: finds("start and stop with contexts that have ended"), bend: func(b *bent) { stops(b, func(_ int, _, over bool) bool { return over }) }},
		"a goroutine is left":             {finds: finds("leaks of starts and stops"), bend: leaves, alone: true},
		"stats after the end":             {finds: finds("nothing works outside start and stop"), bend: func(b *bent) { b.stats = func(*tier.Stats, error) error { return nil } }},
		"the rest is lost":                {finds: finds("stop with operations in flight"), bend: losesRest},
		"memory after the stop":           {finds: finds("stop given up with operations in flight"), bend: func(b *bent) { touch := b.touches(); b.reap = func(context.Context) error { touch(); return nil } }},
		"nothing survives": {finds: finds("records survive", "a shared volume"), config: func(c *reference.Config) {
			c.Backing = reference.NewBacking(c.Capacity)
		}},
		"one ID for all":   {finds: finds("records do not survive", "independent"), volatile: true, bend: func(b *bent) { b.volume = func(v *tier.Volume) { v.ID = [16]byte{1} } }},
		"volumes share":    {finds: finds("independent"), config: oneForAll()},
		"flush is nothing": {finds: finds("a crash"), bend: func(b *bent) { b.flush = func() error { return nil } }},
		"flush fails":      {finds: finds("flush"), bend: func(b *bent) { b.flush = func() error { return errBug } }},
		"a given up call spoils it": {finds: finds("contexts that have ended"), bend: func(b *bent) {
			spoiled := false
			b.deregister = func(ctx context.Context, id tier.RegionID) error {
				if spoiled = spoiled || ctx.Err() != nil; spoiled {
					return errBug
				}
				return b.Tier.Deregister(ctx, id)
			}
		}},
		"stop waits for the storage": {finds: finds("stop while the storage hangs"), hangs: true, bend: func(b *bent) {
			b.stop = func(context.Context) error { return b.Tier.Stop(context.Background()) }
		}},
	}
}

// stops makes a Stop fail. The function gets its number, whether the tier was started, and whether an earlier Stop was
// given up.
func stops(b *bent, fails func(n int, started, over bool) bool) {
	var mu sync.Mutex
	n, started, over := 0, false, false
	b.start = func() error { started = true; return nil }
	b.stop = func(ctx context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		n++
		err := b.Tier.Stop(ctx)
		if fails(n, started, over) {
			return errBug
		}
		over = over || ctx.Err() != nil
		return err
	}
}

var (
	leaked  sync.WaitGroup
	leakEnd = make(chan struct{}) // of the one test whose bug it is
)

func leaves(b *bent) {
	end := leakEnd
	var once sync.Once
	b.stop = func(ctx context.Context) error {
		once.Do(func() { leaked.Go(func() { <-end }) })
		return b.Tier.Stop(ctx)
	}
}

// endLeaks ends the goroutines of the one bug that leaves some.
func endLeaks() {
	close(leakEnd)
	leaked.Wait()
	leakEnd = make(chan struct{})
}

func losesRest(b *bent) {
	var mu sync.Mutex
	stopped := false
	b.stop = func(ctx context.Context) error {
		err := b.Tier.Stop(ctx)
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		return err
	}
	b.reap = func(context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		if stopped {
			return tier.ErrStopped
		}
		return nil
	}
}

func oneForAll() func(*reference.Config) {
	b := reference.NewBacking(8 << 20)
	return func(c *reference.Config) { c.Backing = b }
}

// halves leaves the end of a value out, until the next Read that is asked for it.
func halves(b *bent) {
	b.complete = func(o tier.Op, c *tier.Completion) bool {
		if o.Kind == tier.Read && c.Status == tier.OK && len(o.Local[0]) == 100_003 {
			clear(o.Local[0][50_000:])
		}
		return false
	}
}
