package store

import (
	"context"
	"errors"
	"sync"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store/hotcache"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// ErrClosed is what a closed client answers.
var ErrClosed = errors.New("the store client is closed")

// Client puts objects into the pool and gets them out. Safe for concurrent use.
//
// Errors carry an errs.Code. Batch methods answer per key, in the order of the keys; an
// error that concerns the whole call is every key's answer.
//
// A client is one user of layer-wise sessions; NewLayers makes more.
type Client struct {
	*Layers

	cfg     Config
	caller  model.Caller
	session *Session
	own     bool // the session ends with the client
	master  Master
	engine  engine
	pool    *memory.Pool
	hot     *hotcache.Cache // nil when off
	log     *quiet
	metrics *metrics
	host    string
	table   *layerTable
	// What calls work with.
	readings, writings sync.Pool

	mu      sync.Mutex
	closed  bool
	calls   sync.WaitGroup
	buffers map[uint64]transport.RegionID // by address
}

// NewClient makes a client. It acquires nothing.
func NewClient(cfg Config, deps Deps) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := deps.validate(); err != nil {
		return nil, err
	}
	m, err := newMetrics(deps.registerer(), deps.Engine)
	if err != nil {
		return nil, errs.Wrap(errs.Internal, "store: register metrics", err)
	}
	s, own, err := deps.session()
	if err != nil {
		return nil, err
	}
	c := &Client{
		cfg: cfg, caller: model.Caller{Client: deps.ID, Tenant: cfg.Tenant}, session: s, own: own, master: deps.Master,
		engine: deps.Engine, pool: deps.Buffers, log: &quiet{log: deps.Log}, metrics: m, host: hostOf(deps.Engine.LocalName()),
		buffers: map[uint64]transport.RegionID{},
	}
	c.table = newLayerTable(c)
	c.Layers = c.NewLayers()
	if cfg.HotCache.Size > 0 {
		c.hot = hotcache.New(cfg.HotCache, c.reread)
		m.cache(deps.registerer(), c.hot)
	}
	return c, nil
}

// Ready answers with the master's version, or why it cannot be reached.
func (c *Client) Ready(ctx context.Context) (string, error) {
	return ask(ctx, c.session, "ServiceReady", c.master.Ready)
}

// Health tells whether the master answers, as far as is known without asking it.
func (c *Client) Health() Health { return c.session.Health() }

// Hostname is the name of this process's segments, "host:port".
func (c *Client) Hostname() string { return c.engine.LocalName() }

// Close refuses new calls, waits for those in flight until the context ends, revokes the
// puts whose sessions are open, and ends the registration of buffers. Repeatable.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	buffers := c.buffers
	c.buffers = map[uint64]transport.RegionID{}
	c.mu.Unlock()

	done := make(chan struct{})
	go func() { c.calls.Wait(); close(done) }()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = errs.Wrap(errs.Internal, "store: close with calls in flight", ctx.Err())
	}
	c.table.close(ctx)
	if c.hot != nil {
		c.hot.Close()
	}
	if c.own {
		c.session.Close()
	}
	for _, id := range buffers {
		err = errors.Join(err, c.engine.Deregister(ctx, id))
	}
	return err
}

// enter notes a call in flight, to be ended with c.calls.Done.
func (c *Client) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errs.Wrap(errs.Internal, "store", ErrClosed)
	}
	c.calls.Add(1)
	return nil
}

// finishing is a context for what has to happen even though the caller's ended.
func (c *Client) finishing(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), c.cfg.FinishTimeout)
}
