package relay

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest/faulty"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest/reference"
)

// fakeNet connects fakes.
type fakeNet struct {
	net  *reference.Network
	turn sync.Mutex // held while bytes move, because the operations of tests overlap
}

// hooks change how a fake behaves. Each may be nil. Deregister is called before the region is removed.
type hooks struct {
	Register   func(transport.Region) error
	Deregister func(transport.RegionID) error
	Dial       func(transport.Endpoint) error
	Import     func(transport.Key) error
}

// fake is the reference transport, but it dies as a process does, and completes its operations
// afterwards. It implements transport.Upstream and transport.Changing too.
type fake struct {
	transport.Transport
	net     *fakeNet
	plan    *faulty.Plan
	Hooks   hooks
	changed chan struct{}

	mu      sync.Mutex
	name    string
	joins   int
	dials   int
	dead    bool // it does not work any more
	held    bool // operations are queued and not carried out
	regions []transport.RegionID
	paths   map[*fakePath]struct{}
}

func (n *fakeNet) New(h hooks) *fake {
	f := n.net.Factory()
	inner, err := f.New(&reference.Config{Window: 1 << 20, LocalAny: true})
	must(err)
	t := &fake{Transport: inner, net: n, plan: faulty.NewPlan(), Hooks: h, changed: make(chan struct{}, 1), paths: map[*fakePath]struct{}{}}
	t.plan.Decide(t.decide)
	return t
}

// decide makes a goroutine of its own carry an operation out, or none while they are held.
func (t *fake) decide(transport.Op) faulty.Effect {
	t.mu.Lock()
	defer t.mu.Unlock()
	return faulty.Effect{Hold: t.held || t.dead, Delay: time.Nanosecond, Late: true}
}

var (
	_ transport.Upstream = (*fake)(nil)
	_ transport.Changing = (*fake)(nil)
)

// Stop implements plugin.Component.
func (t *fake) Stop(ctx context.Context) error {
	t.mu.Lock()
	paths := t.paths
	t.paths = map[*fakePath]struct{}{}
	t.dead, t.regions = true, nil
	t.mu.Unlock()
	for p := range paths {
		must(p.Path.Close(ctx))
	}
	return t.Transport.Stop(ctx)
}

// Die makes the transport stop working without completing anything.
func (t *fake) Die() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dead = true
}

// Hold makes the transport queue operations without carrying them out, until Hold(false).
func (t *fake) Hold(on bool) {
	t.mu.Lock()
	t.held = on
	release := !on && !t.dead
	t.mu.Unlock()
	if release {
		t.plan.Release()
	}
}

// Ended marks the transport's process as gone, and completes the operations in flight.
func (t *fake) Ended() {
	t.Die()
	t.plan.Kill()
}

// Changed implements transport.Changing.
func (t *fake) Changed() <-chan struct{} { return t.changed }

// Regions lists the registered regions in the order of their registration.
func (t *fake) Regions() []transport.RegionID {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.regions)
}

// Joined returns the name that was joined, and how often Join was called.
func (t *fake) Joined() (string, int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.name, t.joins
}

// Open returns the number of open paths.
func (t *fake) Open() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.paths)
}

// call asks a hook and checks that the transport lives; then it calls f with t.mu held.
func call[T any](t *fake, hook func(T) error, x T, f func() error) error {
	if hook != nil {
		if err := hook(x); err != nil {
			return err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dead {
		return errs.WithClass(errs.ClassTransientPath, "fake", errs.New(errs.RPCFail, "", "its process is gone"))
	}
	return f()
}

// Register implements transport.Transport.
func (t *fake) Register(ctx context.Context, g transport.Region) (key transport.Key, err error) {
	err = call(t, t.Hooks.Register, g, func() (err error) {
		if key, err = t.Transport.Register(ctx, g); err == nil {
			t.regions = append(t.regions, g.ID)
		}
		return err
	})
	return key, err
}

// Deregister implements transport.Transport.
func (t *fake) Deregister(ctx context.Context, id transport.RegionID) error {
	return call(t, t.Hooks.Deregister, id, func() error {
		t.regions = slices.DeleteFunc(t.regions, func(r transport.RegionID) bool { return r == id })
		return t.Transport.Deregister(ctx, id)
	})
}

// Dial implements transport.Transport.
func (t *fake) Dial(ctx context.Context, peer transport.Endpoint) (transport.Path, error) {
	p := &fakePath{t: t}
	err := call(t, t.Hooks.Dial, peer, func() error {
		inner, err := t.Transport.Dial(ctx, peer)
		if err == nil {
			t.dials++
			p.Path, p.base = faulty.WrapPath(serial{inner, &t.net.turn}, t.plan), transport.RemoteID(t.dials%3)
			t.paths[p] = struct{}{}
		}
		return err
	})
	return p, err
}

// Join implements transport.Upstream.
func (t *fake) Join(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.name = name
	t.joins++
}

// Segment implements transport.Upstream.
func (t *fake) Segment() transport.Segment {
	return transport.Segment{Protocol: "tcp", DataPort: int(t.Endpoint().Incarnation)}
}

// Translate implements transport.Upstream.
func (t *fake) Translate(p transport.PeerSegment) (transport.Endpoint, []transport.Key, error) {
	return transport.Endpoint{Blob: []byte(p.Name)}, nil, nil
}

// Accept implements transport.Upstream.
func (t *fake) Accept(_ context.Context, request []byte) ([]byte, error) { return request, nil }

// serial moves bytes for one path at a time.
type serial struct {
	transport.Path
	turn *sync.Mutex
}

func (s serial) Submit(ops []transport.Op) (int, error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	return s.Path.Submit(ops)
}

// fakePath implements transport.Path.
type fakePath struct {
	transport.Path
	t *fake
	// base shifts the IDs of remotes, so that they differ between generations.
	base transport.RemoteID
}

// Import implements transport.Path.
func (p *fakePath) Import(ctx context.Context, k transport.Key) (id transport.RemoteID, err error) {
	err = call(p.t, p.t.Hooks.Import, k, func() error {
		id, err = p.Path.Import(ctx, k)
		return err
	})
	return id + p.base, err
}

// Submit implements transport.Path. It takes at most 20 operations at a time: back-pressure.
func (p *fakePath) Submit(ops []transport.Op) (int, error) {
	shifted := slices.Clone(ops[:min(len(ops), 20)])
	for i := range shifted {
		shifted[i].Remote -= p.base
	}
	return p.Path.Submit(shifted)
}

// Close implements transport.Path.
func (p *fakePath) Close(ctx context.Context) error {
	p.t.mu.Lock()
	delete(p.t.paths, p)
	p.t.mu.Unlock()
	return p.Path.Close(ctx)
}
