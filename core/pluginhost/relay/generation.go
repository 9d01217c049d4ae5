package relay

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// endGrace bounds the delivery of completions after the end of a process. They are queued by
// then.
const endGrace = 3 * time.Second

// Generation is one process that carries the transport.
type Generation struct {
	r       *Relay
	t       transport.Transport
	observe func(ctx context.Context, err error)

	ended chan struct{} // closed by Ended
	// final ends some time after that, when nothing waits for the generation any more.
	final context.Context
	end   context.CancelFunc

	published chan struct{} // closed once peers can find its endpoint
	publish   sync.Once

	// Guarded by r.mu.
	endpoint transport.Endpoint
	keys     map[transport.RegionID]transport.Key
	taking   map[transport.RegionID]chan struct{} // regions being deregistered; closed when that is over
	joined   bool
	over     bool // Ended was called: no more inner paths are made
	gone     bool
	paths    int           // inner paths that still have to be reaped
	idle     chan struct{} // closed when paths is 0, nil while quiet does not wait
}

// Begin makes a generation of a transport that was started. observe, if it is set, receives
// the outcome of each call.
func (r *Relay) Begin(t transport.Transport, observe func(ctx context.Context, err error)) *Generation {
	if observe == nil {
		observe = func(context.Context, error) {}
	}
	gen := &Generation{
		r: r, t: t, observe: observe, endpoint: t.Endpoint(), ended: make(chan struct{}), published: make(chan struct{}),
		keys: map[transport.RegionID]transport.Key{}, taking: map[transport.RegionID]chan struct{}{},
	}
	gen.final, gen.end = context.WithCancel(context.Background())
	r.mu.Lock()
	r.gens = append(r.gens, gen)
	r.mu.Unlock()
	r.introduce(gen)
	if c, ok := transport.As[transport.Changing](t); ok {
		r.spawn(func() { gen.follow(c.Changed()) })
	}
	return gen
}

// introduce tells a generation the name that was joined, once.
func (r *Relay) introduce(gen *Generation) {
	r.mu.Lock()
	name, tell := r.name, r.joined && !gen.joined
	gen.joined = gen.joined || tell
	r.mu.Unlock()
	if u, ok := transport.As[transport.Upstream](gen.t); ok && tell {
		u.Join(name)
	}
}

// follow forwards the changes that a generation reports.
func (gen *Generation) follow(changed <-chan struct{}) {
	for {
		select {
		case <-changed:
			gen.r.Touch()
		case <-gen.ended:
			return
		case <-gen.r.ctx.Done():
			return
		}
	}
}

// Enroll registers every region with a generation. If it returns nil, changes of the registered
// regions wait until Use or Drop.
func (r *Relay) Enroll(ctx context.Context, gen *Generation) error {
	if err := r.order.Acquire(ctx, exclusive); err != nil {
		return err
	}
	if err := r.enroll(ctx, gen); err != nil {
		r.order.Release(exclusive)
		return err
	}
	return nil
}

func (r *Relay) enroll(ctx context.Context, gen *Generation) error {
	r.mu.Lock()
	last := r.endpoint
	if r.now != nil {
		last = r.now.endpoint
	}
	all := slices.Clone(r.regions)
	r.mu.Unlock()
	if ep := gen.t.Endpoint(); ep.Incarnation != 0 && last.Incarnation == ep.Incarnation {
		return errs.New(errs.InvalidVersion, r.op("start again"), "it has the incarnation %d again, so that peers could not tell its old keys from the new ones", ep.Incarnation)
	}
	for _, g := range all {
		key, err := gen.t.Register(ctx, g)
		gen.observe(ctx, err)
		if err != nil {
			return wire.Wrap(errs.CodeOf(err), r.op("register a region again"), err)
		}
		r.mu.Lock()
		gen.keys[g.ID] = key
		r.mu.Unlock()
	}
	r.introduce(gen)
	ep := gen.t.Endpoint() // Registration may have completed it.
	r.mu.Lock()
	gen.endpoint = ep
	r.mu.Unlock()
	return nil
}

// Drop gives up a generation that was enrolled and is not used.
func (r *Relay) Drop(gen *Generation) {
	r.order.Release(exclusive)
	r.Lost(gen)
}

// Ended reports that the process is gone: its operations are complete, and it does not touch
// memory any more. Ended may be called more than once.
func (r *Relay) Ended(gen *Generation) {
	r.mu.Lock()
	over := gen.over
	gen.over = true
	r.mu.Unlock()
	r.Lost(gen) // Lay sees over, or this call sees its inner path: one of them gives it up.
	if over {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	gen.gone = true
	close(gen.ended)
	r.gens = slices.DeleteFunc(r.gens, func(o *Generation) bool { return o == gen })
	if gen.paths == 0 {
		gen.end()
		return
	}
	time.AfterFunc(endGrace, gen.end)
}

// Published reports that peers can find an endpoint.
func (r *Relay) Published(ep transport.Endpoint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, gen := range r.gens {
		// Without incarnations the blob identifies the generation.
		if gen.endpoint.Incarnation == ep.Incarnation && (ep.Incarnation != 0 || bytes.Equal(gen.endpoint.Blob, ep.Blob)) {
			gen.publish.Do(func() { close(gen.published) })
		}
	}
}

// Retire lets a generation finish after another one replaced it. The old generation goes on
// serving peers until they can find the new endpoint, but no longer than grace. Then Retire
// waits for the operations that its paths have in flight. Its regions stay registered: Stop
// ends the operations of peers in order, and has more time for that than Deregister. An error
// says what did not end in time; the process can be stopped all the same.
func (r *Relay) Retire(ctx context.Context, gen *Generation, grace time.Duration) error {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	if next := r.current(); next != nil && next != gen {
		select {
		case <-next.published:
		case <-next.ended:
		case <-gen.ended:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	for _, p := range r.all() {
		p.leave(gen)
	}
	return r.quiet(ctx, gen)
}

// quiet waits until every completion of a generation is reaped.
func (r *Relay) quiet(ctx context.Context, gen *Generation) error {
	r.mu.Lock()
	if gen.paths == 0 {
		r.mu.Unlock()
		return nil
	}
	if gen.idle == nil {
		gen.idle = make(chan struct{})
	}
	idle := gen.idle
	r.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return errs.Wrap(errs.RPCTimeout, r.op("finish the operations in flight"), ctx.Err())
	}
}

// hold and release count the inner paths of a generation.
func (gen *Generation) hold() {
	gen.r.mu.Lock()
	defer gen.r.mu.Unlock()
	gen.paths++
}

func (gen *Generation) release() {
	gen.r.mu.Lock()
	defer gen.r.mu.Unlock()
	gen.paths--
	if gen.paths > 0 {
		return
	}
	if gen.gone {
		gen.end()
	}
	if gen.idle != nil {
		close(gen.idle)
		gen.idle = nil
	}
}
