// Package local is a client of the pool without transports of its own. It attaches to a process of
// the same host that has them (package serve) and shares memory with it. The transports read and
// write that memory in place; no byte of an object passes through a socket.
//
// Memory comes from an Allocator. The client copies values in other memory once, within this process,
// through a buffer of Config.LocalBufferSize.
//
// When the other process ends, calls fail with RPCFail within Config.OutageWait, and the client
// attaches again by itself, with all its memory, as soon as the other process is back. Memory stays
// valid throughout. A call that touches memory returns only when the other process provably no longer
// uses it: it answered, or its end of the socket closed, which it does last and the kernel does when
// the process dies. If neither happens in time, the error is transfer.ErrQuarantined.
package local

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/internal/gate"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Client implements store.Pool through another process of this host. Safe for concurrent use.
type Client struct {
	store.Calls
	cfg      Config
	log      *slog.Logger
	alloc    Allocator // of the local buffer
	stage    *memory.Pool
	lastCall atomic.Uint64 // names calls
	traffic  atomic.Uint64 // the bytes that calls sent and received
	calls    gate.Gate

	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	// change is held while regions are registered or an attachment opens, so that an attachment has
	// all regions or none.
	change  sync.Mutex
	regions regions

	mu        sync.Mutex
	attached  *attachment   // nil while there is none
	changed   chan struct{} // closed and replaced when attached changes
	cause     error         // why there is none
	unsettled bool          // the last attachment ended without proof
}

var _ store.Pool = (*Client)(nil)

// Attach attaches to a service. RPCFail when the service cannot be reached; after the first time the
// client attaches again by itself. Close it.
func Attach(ctx context.Context, cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	c := &Client{cfg: cfg, log: cfg.Log, changed: make(chan struct{})}
	c.Calls = store.Calls{Pool: c}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if err := c.openStage(); err != nil {
		return nil, err
	}
	a, err := c.connect(ctx)
	if err != nil {
		c.cancel()
		return nil, errors.Join(err, c.closeStage())
	}
	c.tasks.Go(func() { c.keepAttached(a) })
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

// Close implements store.Pool: it also detaches. Memory of the allocator stays valid and is no longer
// registered.
func (c *Client) Close(ctx context.Context) error {
	if !c.calls.Close() {
		return nil
	}
	err := errs.Wrap(errs.Internal, "local client: close with calls in flight", c.calls.Wait(ctx))
	c.cancel()
	c.tasks.Wait()
	_ = c.calls.Wait(context.Background()) // The attachment has ended, so the calls end.
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

// Hostname implements store.Pool. It is the name as of the last attachment.
func (c *Client) Hostname() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attached == nil {
		return ""
	}
	return c.attached.hostname
}

// Layers implements store.Pool.
func (c *Client) Layers() store.Layers { return sessions{c} }

// Attached reports whether there is a service at the moment.
func (c *Client) Attached() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.attached != nil
}

// Traffic is how many bytes calls sent and received so far: descriptions of objects, never their
// bytes.
func (c *Client) Traffic() uint64 { return c.traffic.Load() }
