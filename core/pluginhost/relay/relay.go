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

// exclusive is the weight that a change of the generation acquires, so that all others wait.
const exclusive = 1 << 30

// Options of a Relay.
type Options struct {
	// ID is named in errors.
	ID plugin.ID
	// Rails makes paths implement transport.Railed.
	Rails bool
	// Refuse returns the error of a call that finds no generation. Its class is local-device
	// if no other generation will follow.
	Refuse func(op string) error
	// Logger records background events; it already names the plugin. nil discards.
	Logger *slog.Logger
}

// Relay is the data side of a transport that is carried by one generation after another. It
// implements transfer.Renewing, and transport.Transport except for Start and Stop. It is safe
// for concurrent use.
type Relay struct {
	o       Options
	changed chan struct{}
	// order is acquired with weight 1 to change the registered regions, and with weight
	// exclusive to change the generation.
	order *semaphore.Weighted

	ctx    context.Context // of the renewals; Close ends it
	cancel context.CancelFunc
	tasks  sync.WaitGroup
	width  *semaphore.Weighted // bounds concurrent renewals

	mu       sync.Mutex
	closed   bool
	name     string // that was joined
	joined   bool
	regions  []transport.Region // in the order in which they were registered
	now      *Generation        // nil while there is none
	gens     []*Generation      // that did not end
	endpoint transport.Endpoint
	segment  transport.Segment
	paths    map[*path]struct{}
}

// New makes a relay without a generation.
func New(o Options) *Relay {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Relay{
		o: o, changed: make(chan struct{}, 1), order: semaphore.NewWeighted(exclusive), width: semaphore.NewWeighted(renewWidth),
		paths: map[*path]struct{}{},
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// Close stops the background work. Generations end on their own. Paths that are still open
// deliver their remaining completions and then report that they are closed. Close may be called
// more than once.
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

// Touch makes Changed fire, because a key or the state of a path has changed.
func (r *Relay) Touch() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// current returns the generation that takes new work, nil while there is none.
func (r *Relay) current() *Generation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *Relay) op(op string) string { return r.o.ID.String() + ": " + op }

// refuse is the error of a submission that finds no generation. Its class makes the caller try
// another path, unless no generation will follow.
func (r *Relay) refuse(op string) error {
	err := r.o.Refuse(op)
	if errs.ClassOf(err) == errs.ClassLocalDevice {
		return err
	}
	return errs.WithClass(errs.ClassTransientPath, "", err)
}

// Use makes an enrolled generation the current one, which takes new work.
func (r *Relay) Use(gen *Generation) {
	r.mu.Lock()
	if !gen.gone {
		r.now = gen
	}
	r.mu.Unlock()
	r.order.Release(exclusive)
	for _, p := range r.all() {
		p.adopt(gen)
	}
	r.Touch()
}

// Lost takes a generation out of use: it gets no more work. Lost may be called more than once.
func (r *Relay) Lost(gen *Generation) {
	r.mu.Lock()
	if r.now == gen {
		r.endpoint, r.now = gen.endpoint, nil
	}
	r.mu.Unlock()
	for _, p := range r.all() {
		p.leave(gen)
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

// others lists the generations that have not ended.
func (r *Relay) others() []*Generation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.gens)
}
