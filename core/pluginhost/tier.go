package pluginhost

import (
	"context"
	"sync"

	"github.com/mooncake-go/mooncake/core/pluginhost/tierrelay"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// tierProxy is a tier in a supervised process. The relay keeps the regions and the operations in
// flight, so that they outlive its processes. Other calls go to the process in use.
type tierProxy struct {
	*supervisor[tier.Tier]
	*tierrelay.Relay
	last *lastVolume
}

var _ tier.Tier = tierProxy{}

// lastVolume is what a tier answered last.
type lastVolume struct {
	mu sync.Mutex
	v  tier.Volume
}

// relayedTier puts a relay under a supervisor. Two processes do not use one volume at the same time,
// unless the tier shares it.
func relayedTier(_ wire.Kind[tier.Tier], s *supervisor[tier.Tier], m plugin.Manifest) tier.Tier {
	s.alone = !m.Has(tier.CapShared)
	p := tierProxy{supervisor: s, last: &lastVolume{}}
	p.Relay = tierrelay.New(s.id, func(op string) error { return unavailable(s.refuse(op)) })
	s.carry = tierCarry{s, p.Relay}
	return p
}

// unavailable gives the error of a call that found no process the code that the contract names.
func unavailable(err error) error { return errs.Wrap(errs.UnavailableInCurrentStatus, "", err) }

// ask makes a call of the process in use.
func (p tierProxy) ask(ctx context.Context, op string, f func(tier.Tier) error) error {
	asked := false
	err := p.call(ctx, op, func(t tier.Tier) error {
		asked = true
		return f(t)
	})
	if err != nil && !asked {
		return unavailable(err)
	}
	return err
}

// Volume implements tier.Tier. While no process runs it returns the last answer. Another ID after a
// restart says that the records of the earlier process are gone.
func (p tierProxy) Volume() tier.Volume {
	_ = p.ask(context.Background(), "volume", func(t tier.Tier) error {
		v := t.Volume()
		p.last.mu.Lock()
		defer p.last.mu.Unlock()
		p.last.v = v
		return nil
	})
	p.last.mu.Lock()
	defer p.last.mu.Unlock()
	return p.last.v
}

// Space implements tier.Tier. While no process runs it returns the size.
func (p tierProxy) Space(r tier.Record) uint64 {
	space := r.Size
	_ = p.ask(context.Background(), "space", func(t tier.Tier) error {
		space = t.Space(r)
		return nil
	})
	return space
}

// Forget implements tier.Tier.
func (p tierProxy) Forget(ctx context.Context, at []tier.Locator) error {
	return p.ask(ctx, "forget", func(t tier.Tier) error { return t.Forget(ctx, at) })
}

// Scan implements tier.Tier.
func (p tierProxy) Scan(ctx context.Context, from tier.Cursor, dst []tier.Found) (n int, next tier.Cursor, err error) {
	err = p.ask(ctx, "scan", func(t tier.Tier) (err error) {
		n, next, err = t.Scan(ctx, from, dst)
		return err
	})
	return n, next, err
}

// Flush implements tier.Tier.
func (p tierProxy) Flush(ctx context.Context) error {
	return p.ask(ctx, "flush", func(t tier.Tier) error { return t.Flush(ctx) })
}

// Wipe implements tier.Tier.
func (p tierProxy) Wipe(ctx context.Context) error {
	return p.ask(ctx, "wipe", func(t tier.Tier) error { return t.Wipe(ctx) })
}

// Stats implements tier.Tier.
func (p tierProxy) Stats(ctx context.Context) (st tier.Stats, err error) {
	err = p.ask(ctx, "stats", func(t tier.Tier) (err error) {
		st, err = t.Stats(ctx)
		return err
	})
	return st, err
}

// tierCarry ties the generations of the relay to processes.
type tierCarry struct {
	s *supervisor[tier.Tier]
	r *tierrelay.Relay
}

type carriedTier = running[tier.Tier]

// of returns the generation of a process, nil until that was started.
func (c tierCarry) of(r *carriedTier) *tierrelay.Generation {
	gen, _ := r.gen.Load().(*tierrelay.Generation)
	return gen
}

func (c tierCarry) begin(r *carriedTier) {
	r.gen.Store(c.r.Begin(r.Object(), c.s.observer(r)))
}

func (c tierCarry) lay(context.Context, *carriedTier) error { return nil }
func (c tierCarry) enroll(ctx context.Context, r *carriedTier) error {
	return c.r.Enroll(ctx, c.of(r))
}
func (c tierCarry) use(r *carriedTier)  { c.r.Use(c.of(r)) }
func (c tierCarry) drop(r *carriedTier) { c.r.Drop(c.of(r)) }

func (c tierCarry) lost(r *carriedTier) {
	if gen := c.of(r); gen != nil {
		c.r.Lost(gen)
	}
}

func (c tierCarry) ended(r *carriedTier) {
	if gen := c.of(r); gen != nil {
		c.r.Ended(gen)
	}
}

func (c tierCarry) retire(ctx context.Context, r *carriedTier) error {
	return c.r.Retire(ctx, c.of(r))
}

func (c tierCarry) failed() {}
func (c tierCarry) close()  { c.r.Close() }
