package relay

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// everyone is the weight of who changes the life: all others wait.
const everyone = 1 << 30

// Options of a Relay.
type Options struct {
	// ID is named in errors.
	ID plugin.ID
	// Rails: paths implement transport.Railed.
	Rails bool
	// Refuse makes the error of a call that finds no life. Its class is local-device where
	// none will come.
	Refuse func(op string) error
	// Logger gets what happens in the background; it names the plugin. nil discards.
	Logger *slog.Logger
}

// Relay is the data side of a transport over lives that follow each other. It implements
// transport.Transport but for Start and Stop, and transfer.Renewing. Safe for concurrent
// use.
type Relay struct {
	o       Options
	changed chan struct{}
	// order is held by one for a change of what is registered, by everyone for a change of
	// the life.
	order *semaphore.Weighted

	ctx    context.Context // of the renewals, ends with Close
	cancel context.CancelFunc
	tasks  sync.WaitGroup
	width  *semaphore.Weighted // renewals at once

	mu       sync.Mutex
	closed   bool
	name     string // that was joined
	joined   bool
	regions  []transport.Region // in the order in which they were registered
	now      *Life              // nil while there is none
	lives    []*Life            // that did not end
	endpoint transport.Endpoint
	segment  transport.Segment
	paths    map[*path]struct{}
}

// New makes a relay without a life.
func New(o Options) *Relay {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Relay{
		o: o, changed: make(chan struct{}, 1), order: semaphore.NewWeighted(everyone), width: semaphore.NewWeighted(renewWidth),
		paths: map[*path]struct{}{},
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// Close ends what runs in the background. Lives end by themselves; paths that are still open
// give out what is left and then say that they are closed. Repeatable.
func (r *Relay) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	r.tasks.Wait()
	for _, p := range r.all() {
		p.broadcast()
	}
}

// spawn runs f unless the relay is closed.
func (r *Relay) spawn(f func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.tasks.Go(f)
	return true
}

// Changed implements transport.Changing.
func (r *Relay) Changed() <-chan struct{} { return r.changed }

// Touch makes Changed fire: something that Key or a path says is different now.
func (r *Relay) Touch() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// current returns the life for new work, nil while there is none.
func (r *Relay) current() *Life {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *Relay) op(op string) string { return r.o.ID.String() + ": " + op }

// refuse is the error of a submission that finds no life: the caller tries another path.
func (r *Relay) refuse(op string) error {
	err := r.o.Refuse(op)
	if errs.ClassOf(err) == errs.ClassLocalDevice {
		return err
	}
	return errs.WithClass(errs.ClassTransientPath, "", err)
}

// Use makes a life that was enrolled the one that new work goes to.
func (r *Relay) Use(l *Life) {
	r.mu.Lock()
	if !l.gone {
		r.now = l
	}
	r.mu.Unlock()
	r.order.Release(everyone)
	for _, p := range r.all() {
		p.adopt(l)
	}
	r.Touch()
}

// Lost ends the use of a life: nothing new goes to it. Repeatable.
func (r *Relay) Lost(l *Life) {
	r.mu.Lock()
	if r.now == l {
		r.endpoint, r.now = l.endpoint, nil
	}
	r.mu.Unlock()
	for _, p := range r.all() {
		p.leave(l)
	}
	r.Touch()
}

func (r *Relay) all() []*path {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]*path, 0, len(r.paths))
	for p := range r.paths {
		out = append(out, p)
	}
	return out
}

// others lists the lives that did not end.
func (r *Relay) others() []*Life {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lives)
}
