package transfer

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/sdk/errs"
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
	log      *slog.Logger
	born     time.Time
	stats    counters

	regions    regions
	nextRegion atomic.Uint64

	// ctx ends when Close begins: nothing new is connected. reaping ends when Close gives
	// up waiting.
	ctx      context.Context
	cancel   context.CancelFunc
	reaping  context.Context
	stopReap context.CancelFunc

	// Order of locks: mu, then a peer's, then life.
	mu    sync.Mutex
	peers map[string]*peer

	life   sync.Mutex
	closed bool
	calls  sync.WaitGroup // Transfer
	tasks  sync.WaitGroup // connects and reapers
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
		cfg: cfg, dir: deps.Directory, carriers: deps.Carriers, staging: deps.Staging, log: deps.Log,
		born: time.Now(), peers: map[string]*peer{},
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.reaping, e.stopReap = context.WithCancel(context.Background())
	return e, nil
}

// LocalName is the name under which this process's memory is published.
func (e *Engine) LocalName() string { return e.dir.LocalName() }

// Close waits for transfers under way, until the context ends; then it closes the paths
// and ends the regions that are left. Transports are stopped after it. Repeatable.
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
	for _, p := range peers {
		p.close(ctx)
	}
	err = errors.Join(err, await(ctx, &e.tasks))
	e.stopReap()
	for _, r := range e.regions.all() {
		err = errors.Join(err, e.Deregister(ctx, r.id))
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

// peer returns the peer of a name, to be given back with release.
func (e *Engine) peer(name string) (*peer, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.peers[name]
	if p == nil {
		if len(e.peers) >= e.cfg.MaxPeers && !e.dropIdle() {
			return nil, errs.New(errs.TransferFail, "transfer: connect to "+name, "%d peers are in use, the bound", len(e.peers))
		}
		p = &peer{name: name, e: e}
		e.peers[name] = p
	}
	p.mu.Lock()
	p.users++
	p.mu.Unlock()
	return p, nil
}

func (e *Engine) release(p *peer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users--
	p.lastUsed = time.Now()
}

// dropIdle closes the longest unused peer. The caller holds e.mu.
func (e *Engine) dropIdle() bool {
	var oldest *peer
	var since time.Time
	for _, p := range e.peers {
		p.mu.Lock()
		idle := p.users == 0 && p.pending == nil
		if idle && (oldest == nil || p.lastUsed.Before(since)) {
			oldest, since = p, p.lastUsed
		}
		p.mu.Unlock()
	}
	if oldest == nil {
		return false
	}
	if !e.spawn(func() {
		ctx, cancel := context.WithTimeout(e.ctx, e.cfg.ConnectTimeout)
		defer cancel()
		oldest.close(ctx)
	}) {
		return false // Close takes care of it.
	}
	delete(e.peers, oldest.name)
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

// await waits for a group until the context ends.
func await(ctx context.Context, wg *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
