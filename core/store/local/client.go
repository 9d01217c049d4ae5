package local

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Client is a client of the pool that works through another process of this host. Its
// methods are those of store.Client and answer the same. Safe for concurrent use.
type Client struct {
	cfg   Config
	log   *slog.Logger
	alloc Allocator // of the local buffer
	stage *memory.Pool
	call  atomic.Uint64 // names calls
	// traffic is the bytes that calls sent and received.
	traffic atomic.Uint64

	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	// change is held while regions are registered or a link is opened, so that a link has
	// all regions or none.
	change  sync.Mutex
	regions regions

	mu        sync.Mutex
	link      *link         // nil while there is none
	changed   chan struct{} // closed and renewed when link does
	cause     error         // why there is none
	unsettled bool          // the last link ended without proof
	closed    bool
	calls     sync.WaitGroup
}

var _ store.Pool = (*Client)(nil)

// Attach attaches to a service. RPCFail when it cannot be reached; after the first time the
// client attaches again by itself. Close it.
func Attach(ctx context.Context, cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	c := &Client{cfg: cfg, log: cfg.Log, changed: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if err := c.openStage(); err != nil {
		return nil, err
	}
	l, err := c.connect(ctx)
	if err != nil {
		c.cancel()
		return nil, errors.Join(err, c.closeStage())
	}
	c.tasks.Go(func() { c.keepAttached(l) })
	return c, nil
}

// openStage makes the local buffer, which is a region like any other.
func (c *Client) openStage() error {
	if c.cfg.LocalBufferSize == 0 {
		return nil
	}
	mem, err := c.alloc.Alloc(c.cfg.LocalBufferSize)
	if err != nil {
		return err
	}
	if c.stage, err = memory.NewPool(mem); err != nil {
		return errors.Join(err, c.alloc.Free(mem))
	}
	b, err := c.alloc.use(mem)
	if err != nil {
		return err
	}
	c.regions.add(b, &c.alloc, "")
	return nil
}

func (c *Client) closeStage() error {
	if c.stage == nil {
		return nil
	}
	mem := c.stage.Memory()
	if g := c.regions.at(mem); g != nil {
		c.regions.remove(g)
		c.alloc.unuse(g.block)
	}
	return c.alloc.Free(mem)
}

// Close refuses new calls, waits for those in flight until the context ends, and detaches.
// Memory of the allocator stays valid and is registered nowhere then. Repeatable.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	again := c.closed
	c.closed = true
	c.mu.Unlock()
	if again {
		return nil
	}
	done := make(chan struct{})
	go func() { c.calls.Wait(); close(done) }()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = errs.Wrap(errs.Internal, "local client: close with calls in flight", ctx.Err())
	}
	c.cancel()
	c.tasks.Wait()
	<-done // The link is gone, so they end.
	settled := c.lastSettled()
	for _, g := range c.regions.all() {
		if c.stage != nil && memory.AddrOf(g.mem) == memory.AddrOf(c.stage.Memory()) {
			continue
		}
		c.regions.remove(g)
		g.alloc.unuse(g.block)
	}
	if !settled {
		return errors.Join(err, errs.Wrap(errs.RPCFail, "local client: close", errUnsettled))
	}
	return errors.Join(err, c.closeStage())
}

// enter notes a call in flight, to be ended with c.calls.Done.
func (c *Client) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errs.Wrap(errs.Internal, "local client", store.ErrClosed)
	}
	c.calls.Add(1)
	return nil
}

// Hostname is the name of the service's segments, as of the last attachment.
func (c *Client) Hostname() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link == nil {
		return ""
	}
	return c.link.hostname
}

// Attached reports whether there is a service at the moment.
func (c *Client) Attached() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link != nil
}

// Traffic is how many bytes calls sent and received so far: what they say of objects, never
// the objects.
func (c *Client) Traffic() uint64 { return c.traffic.Load() }
