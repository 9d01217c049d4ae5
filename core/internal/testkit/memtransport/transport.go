// Package memtransport gives the tests of the core the reference transport of the sdk, with faults
// that a test decides for each operation and counters. Operations complete within Submit, unless a
// fault delays them with a timer, so it also works in virtual time (testing/synctest).
package memtransport

import (
	"context"
	"math"
	"strings"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest/faulty"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest/reference"
)

// Event describes one operation to a fault hook.
type Event struct {
	From, To string
	Kind     transport.OpKind
	Len      int
	// N counts the operations that From submitted to To, from 1.
	N int
	// Local is the memory of From that the bytes leave or reach.
	Local []byte
}

// Fault is what happens to an operation. The zero value lets it through.
type Fault = faulty.Effect

// Haste is how long a hasty read waits for a peer that is silent.
const Haste = faulty.Haste

// Hook decides about every operation. It is called concurrently.
type Hook func(Event) Fault

// Network connects transports by name.
type Network struct{ net *reference.Network }

// NewNetwork returns an empty network.
func NewNetwork() *Network { return &Network{reference.NewNetwork()} }

// Transport is one node of a Network. It serves peers from New on. Start does nothing, and Stop
// takes it off the network.
type Transport struct {
	transport.Transport
	name     string
	hook     atomic.Pointer[Hook]
	dead     atomic.Bool
	sums     atomic.Bool
	reapOnly atomic.Bool
	dials    atomic.Int64
	reaped   atomic.Int64
	polled   atomic.Int64
	depth    int64
}

// New adds a node. It replaces a node of the same name, as a restarted process does.
func (n *Network) New(name string) *Transport {
	inner, err := n.net.Factory().New(&reference.Config{Name: name, Window: math.MaxInt, LocalAny: true})
	if err == nil {
		err = inner.Start(context.Background(), nil)
	}
	if err != nil {
		panic(err)
	}
	return &Transport{Transport: inner, name: name, depth: 1 << 10}
}

// SetHook installs a fault hook for operations that this node submits; nil removes it.
func (t *Transport) SetHook(h Hook) {
	if h == nil {
		t.hook.Store(nil)
		return
	}
	t.hook.Store(&h)
}

// SetDepth bounds the operations in flight on a path; further ones get back-pressure.
func (t *Transport) SetDepth(n int) { t.depth = int64(n) }

// SetSums makes operations that this node submits compute checksums if they ask for it. Paths that
// are already dialled report the same Extras as before.
func (t *Transport) SetSums(on bool) { t.sums.Store(on) }

// SetReapOnly makes paths that are dialled from now on return all completions from Reap. By default
// they deliver completions where these occur, as transport.Extras allow.
func (t *Transport) SetReapOnly(on bool) { t.reapOnly.Store(on) }

// Reaped returns how many completions Reap has returned.
func (t *Transport) Reaped() int { return int(t.reaped.Load()) }

// Polled returns how often the engine polled for a completion.
func (t *Transport) Polled() int { return int(t.polled.Load()) }

// Kill takes the node off the network, as kill -9 does.
func (t *Transport) Kill() { _ = t.Stop(context.Background()) }

// Stop implements plugin.Component.
func (t *Transport) Stop(ctx context.Context) error {
	t.dead.Store(true)
	return t.Transport.Stop(ctx)
}

// Deregister implements transport.Transport. A node that was killed has no regions any more.
func (t *Transport) Deregister(ctx context.Context, id transport.RegionID) error {
	if t.dead.Load() {
		return nil
	}
	return t.Transport.Deregister(ctx, id)
}

// Dials returns how many paths this node opened.
func (t *Transport) Dials() int { return int(t.dials.Load()) }

// Start implements plugin.Component.
func (t *Transport) Start(context.Context, plugin.Host) error { return nil }

// Dial implements transport.Transport.
func (t *Transport) Dial(ctx context.Context, peer transport.Endpoint) (transport.Path, error) {
	t.dials.Add(1)
	inner, err := t.Transport.Dial(ctx, peer)
	if err != nil {
		return nil, err
	}
	plan := faulty.NewPlan()
	p := &path{Path: faulty.WrapPath(inner, plan), from: t, to: strings.TrimPrefix(string(peer.Blob), "reference:")}
	plan.Decide(p.decide)
	return p, nil
}

type path struct {
	transport.Path
	from  *Transport
	to    string
	count int          // operations submitted; the faulty path guards it
	live  atomic.Int64 // operations accepted and not completed
}

func (p *path) decide(o transport.Op) (f Fault) {
	p.count++
	if h := p.from.hook.Load(); h != nil {
		f = (*h)(Event{From: p.from.name, To: p.to, Kind: o.Kind, Len: len(o.Local), N: p.count, Local: o.Local})
	}
	f.NoSum = f.NoSum || !p.from.sums.Load()
	return f
}

// Submit implements transport.Path.
func (p *path) Submit(ops []transport.Op) (int, error) {
	for i := range ops {
		if p.live.Add(1) > p.from.depth {
			p.live.Add(-1)
			return i, nil
		}
		if n, err := p.Path.Submit(ops[i : i+1]); n == 0 {
			p.live.Add(-1)
			return i, err
		}
	}
	return len(ops), nil
}

// Extras implements transport.Extended. Operations complete without a poller.
func (p *path) Extras() transport.Extras {
	deliver := transport.ExtrasOf(p.Path).Deliver
	return transport.Extras{
		Deliver: func(f func(transport.Completion) bool) {
			if p.from.reapOnly.Load() {
				return
			}
			deliver(func(c transport.Completion) bool {
				ok := f(c)
				if ok {
					p.live.Add(-1)
				}
				return ok
			})
		},
		Poll: func(func() bool) { p.from.polled.Add(1) }, Checksums: p.from.sums.Load(),
	}
}

// Reap implements transport.Path.
func (p *path) Reap(ctx context.Context, dst []transport.Completion) (int, error) {
	n, err := p.Path.Reap(ctx, dst)
	p.live.Add(-int64(n))
	p.from.reaped.Add(int64(n))
	return n, err
}
