package transfer

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/matrix"
)

// grace is how long after its deadline an operation may take to be reported as ended
// before its path is closed, and after that before its memory is given up.
const grace = 2 * time.Second

// asleep is how late this process may notice that a time has come before it has to assume
// that it did not run: the machine was paused, or is overloaded. That nothing arrived
// meanwhile says nothing about a peer.
const asleep = time.Second

// Engine moves bytes. Safe for concurrent use.
type Engine struct {
	cfg      Config
	dir      metadata.Directory
	carriers []Carrier
	staging  *memory.Pool
	topology matrix.Matrix
	log      *slog.Logger
	born     time.Time
	id       uint64 // tells this engine from one before it
	stats    counters
	groups   sync.Pool // of *group
	spare    sync.Pool // of *call
	batches  batches
	notes    notes
	joined   sync.Once
	watched  sync.Once
	public   publication

	regions    regions
	nextRegion atomic.Uint64

	// ctx ends when Close begins: nothing new is connected. work ends when Close gives up
	// waiting: batches are cancelled. reaping ends after that.
	ctx      context.Context
	cancel   context.CancelFunc
	work     context.Context
	stopWork context.CancelCauseFunc
	reaping  context.Context
	stopReap context.CancelFunc

	// Order of locks: mu, then a peer's, then life.
	mu    sync.Mutex
	peers map[string]*peer

	life   sync.Mutex
	closed bool
	calls  tally // Transfer, and what Batch.Submit began
	tasks  tally // connects, reapers, watchers
}

// New makes an engine. It acquires nothing; the carriers' transports must be started
// before memory is registered.
func New(cfg Config, deps Deps) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Directory == nil || len(deps.Carriers) == 0 || deps.Log == nil {
		return nil, errs.New(errs.InvalidParams, "transfer: make engine", "a directory, a logger and at least one transport are needed")
	}
	e := &Engine{
		cfg: cfg, dir: deps.Directory, carriers: deps.Carriers, staging: deps.Staging,
		topology: deps.Topology, log: deps.Log, born: time.Now(), id: max(rand.Uint64(), 1), peers: map[string]*peer{},
	}
	e.batches.init()
	e.public.turn = make(chan struct{}, 1)
	e.notes.limit = cfg.MaxNotifications
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.work, e.stopWork = context.WithCancelCause(context.Background())
	e.reaping, e.stopReap = context.WithCancel(context.Background())
	return e, nil
}

// LocalName is the name under which this process's memory is published.
func (e *Engine) LocalName() string { return e.dir.LocalName() }

// Close waits for transfers under way, also those of batches, until the context ends; then
// it cancels batches and gives them a few seconds. It closes the paths and ends the regions
// that are left. Transports are stopped after it. Repeatable.
func (e *Engine) Close(ctx context.Context) error {
	e.life.Lock()
	e.closed = true
	e.life.Unlock()
	e.mu.Lock()
	peers := e.peers
	e.peers = map[string]*peer{}
	e.mu.Unlock()
	e.cancel()
	err := await(ctx, &e.calls)
	e.stopWork(ErrClosed)
	if err != nil {
		rest, stop := context.WithTimeout(context.WithoutCancel(ctx), 2*grace)
		defer stop()
		ctx = rest
	}
	for _, p := range peers {
		p.close(ctx)
	}
	if err != nil {
		_ = await(ctx, &e.calls) // That it took too long is reported already.
	}
	if ctx.Err() != nil { // What is left has been told to end and needs its turn only.
		last, stop := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer stop()
		ctx = last
	}
	err = errors.Join(err, await(ctx, &e.tasks))
	e.stopReap()
	for _, r := range e.regions.all() {
		if r := e.regions.retire(r.id); r != nil {
			err = errors.Join(err, e.end(ctx, r))
		}
	}
	return errs.Wrap(errs.Internal, "transfer: close", err)
}

// spawn runs f unless the engine is closed.
func (e *Engine) spawn(f func()) bool {
	e.life.Lock()
	defer e.life.Unlock()
	if e.closed {
		return false
	}
	e.tasks.Go(f)
	return true
}

// begin notes a transfer under way.
func (e *Engine) begin() bool {
	e.life.Lock()
	defer e.life.Unlock()
	if e.closed {
		return false
	}
	e.calls.Add(1)
	return true
}

// close closes the peer's links.
func (p *peer) close(ctx context.Context) {
	p.mu.Lock()
	links := p.links
	p.links, p.fresh = nil, false
	p.mu.Unlock()
	for _, l := range links {
		l.close(ctx)
	}
}

// tally is a sync.WaitGroup that can say at once that there is nothing to wait for.
type tally struct {
	wg sync.WaitGroup
	n  atomic.Int64
}

func (t *tally) Add(n int) {
	t.n.Add(int64(n))
	t.wg.Add(n)
}

func (t *tally) Done() {
	t.n.Add(-1)
	t.wg.Done()
}

func (t *tally) Go(f func()) {
	t.Add(1)
	go func() {
		defer t.Done()
		f()
	}()
}

// await waits for all of a tally until the context ends. One that has ended still learns
// that there is nothing to wait for.
func await(ctx context.Context, t *tally) error {
	if t.n.Load() == 0 {
		return nil
	}
	done := make(chan struct{})
	go func() { t.wg.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	if t.n.Load() == 0 {
		return nil
	}
	return ctx.Err()
}
