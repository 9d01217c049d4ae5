package relay

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// lastWords is how long after the end of a process its completions may take to be handed
// over; they are there already.
const lastWords = 3 * time.Second

// Life is one process that carries the transport.
type Life struct {
	r       *Relay
	t       transport.Transport
	observe func(ctx context.Context, err error)

	ended chan struct{} // closed by Ended
	// final ends some time after that: nothing waits for the life any more.
	final context.Context
	end   context.CancelFunc

	published chan struct{} // closed once peers can find its endpoint
	publish   sync.Once

	// Guarded by r.mu.
	endpoint transport.Endpoint
	keys     map[transport.RegionID]transport.Key
	taking   map[transport.RegionID]chan struct{} // that are being ended; closed when that is over
	joined   bool
	over     bool // Ended was called: no legs are laid any more
	gone     bool
	legs     int           // that still have to be reaped
	idle     chan struct{} // closed when legs is 0, nil while nobody waits
}

// Begin makes a life of a transport that was started. observe, where set, is told how each
// call went.
func (r *Relay) Begin(t transport.Transport, observe func(ctx context.Context, err error)) *Life {
	if observe == nil {
		observe = func(context.Context, error) {}
	}
	l := &Life{
		r: r, t: t, observe: observe, endpoint: t.Endpoint(), ended: make(chan struct{}), published: make(chan struct{}),
		keys: map[transport.RegionID]transport.Key{}, taking: map[transport.RegionID]chan struct{}{},
	}
	l.final, l.end = context.WithCancel(context.Background())
	r.mu.Lock()
	r.lives = append(r.lives, l)
	r.mu.Unlock()
	r.introduce(l)
	if c, ok := transport.As[transport.Changing](t); ok {
		r.spawn(func() { l.follow(c.Changed()) })
	}
	return l
}

// introduce tells a life the name that was joined, once.
func (r *Relay) introduce(l *Life) {
	r.mu.Lock()
	name, tell := r.name, r.joined && !l.joined
	l.joined = l.joined || tell
	r.mu.Unlock()
	if u, ok := transport.As[transport.Upstream](l.t); ok && tell {
		u.Join(name)
	}
}

// follow passes the changes of a life on.
func (l *Life) follow(changed <-chan struct{}) {
	for {
		select {
		case <-changed:
			l.r.Touch()
		case <-l.ended:
			return
		case <-l.r.ctx.Done():
			return
		}
	}
}

// Enroll registers every region with a life. When it returns nil, changes of what is
// registered wait until Use or Drop.
func (r *Relay) Enroll(ctx context.Context, l *Life) error {
	if err := r.order.Acquire(ctx, everyone); err != nil {
		return err
	}
	if err := r.enroll(ctx, l); err != nil {
		r.order.Release(everyone)
		return err
	}
	return nil
}

func (r *Relay) enroll(ctx context.Context, l *Life) error {
	r.mu.Lock()
	last := r.endpoint
	if r.now != nil {
		last = r.now.endpoint
	}
	all := slices.Clone(r.regions)
	r.mu.Unlock()
	if ep := l.t.Endpoint(); ep.Incarnation != 0 && last.Incarnation == ep.Incarnation {
		return errs.New(errs.InvalidVersion, r.op("start again"), "it has the incarnation %d again, so that peers could not tell its old keys from the new ones", ep.Incarnation)
	}
	for _, g := range all {
		key, err := l.t.Register(ctx, g)
		l.observe(ctx, err)
		if err != nil {
			return errs.Wrap(errs.CodeOf(err), r.op("register a region again"), err)
		}
		r.mu.Lock()
		l.keys[g.ID] = key
		r.mu.Unlock()
	}
	r.introduce(l)
	ep := l.t.Endpoint() // It may say more by now.
	r.mu.Lock()
	l.endpoint = ep
	r.mu.Unlock()
	return nil
}

// Drop gives up a life that was enrolled and is not used.
func (r *Relay) Drop(l *Life) {
	r.order.Release(everyone)
	r.Lost(l)
}

// Ended says that the process is gone: its operations are complete, and nothing of it
// touches memory. Repeatable.
func (r *Relay) Ended(l *Life) {
	r.mu.Lock()
	over := l.over
	l.over = true
	r.mu.Unlock()
	r.Lost(l) // After over: a leg that is laid now is given up by who lays it, or here.
	if over {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l.gone = true
	close(l.ended)
	r.lives = slices.DeleteFunc(r.lives, func(o *Life) bool { return o == l })
	if l.legs == 0 {
		l.end()
		return
	}
	time.AfterFunc(lastWords, l.end)
}

// Published says that peers can find an endpoint.
func (r *Relay) Published(ep transport.Endpoint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.lives {
		// A transport that counts no incarnations is told by where it is.
		if l.endpoint.Incarnation == ep.Incarnation && (ep.Incarnation != 0 || bytes.Equal(l.endpoint.Blob, ep.Blob)) {
			l.publish.Do(func() { close(l.published) })
		}
	}
}

// Retire lets a life that another one took over from finish: until peers can find the new
// endpoint, at most for grace, it goes on serving them; then what its paths have under way
// completes. Its regions stay: Stop owes it to peers to end what they have under way in order,
// for which it has more time than Deregister. An error says what did not end in time; the
// process can be stopped all the same.
func (r *Relay) Retire(ctx context.Context, l *Life, grace time.Duration) error {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	if next := r.current(); next != nil && next != l {
		select {
		case <-next.published:
		case <-next.ended:
		case <-l.ended:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	for _, p := range r.all() {
		p.leave(l)
	}
	return r.quiet(ctx, l)
}

// quiet waits until everything that was submitted to a life was reaped.
func (r *Relay) quiet(ctx context.Context, l *Life) error {
	r.mu.Lock()
	if l.legs == 0 {
		r.mu.Unlock()
		return nil
	}
	if l.idle == nil {
		l.idle = make(chan struct{})
	}
	idle := l.idle
	r.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return errs.Wrap(errs.RPCTimeout, r.op("finish what is under way"), ctx.Err())
	}
}

// hold and release count the legs of a life.
func (l *Life) hold() {
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	l.legs++
}

func (l *Life) release() {
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	l.legs--
	if l.legs > 0 {
		return
	}
	if l.gone {
		l.end()
	}
	if l.idle != nil {
		close(l.idle)
		l.idle = nil
	}
}
