// Package client puts objects into the pool and gets them out, with the transports of this process.
//
// Its parts are packages below internal: put and get move whole objects, layers moves them layer by
// layer, and lease renews the leases of long reads.
package client

import (
	"context"
	"errors"
	"sync"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/client/internal/base"
	"github.com/mooncake-go/mooncake/core/store/client/internal/get"
	"github.com/mooncake-go/mooncake/core/store/client/internal/layers"
	"github.com/mooncake-go/mooncake/core/store/client/internal/lease"
	"github.com/mooncake-go/mooncake/core/store/client/internal/put"
	"github.com/mooncake-go/mooncake/core/store/session"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Config has the settings of a client.
type Config = base.Config

// DefaultConfig returns the defaults.
func DefaultConfig() Config { return base.DefaultConfig() }

// LongestPut bounds the writes of one put without a Config.TransferTimeout.
const LongestPut = base.LongestPut

// Client implements store.Pool. It has faster forms of the frequent calls of store.Calls, which
// allocate only their results. Safe for concurrent use.
type Client struct {
	store.Calls
	b      *base.Base
	own    bool // the session ends with the client
	reader *get.Reader
	writer *put.Writer
	table  *layers.Table
	user   *layers.Layers

	mu      sync.Mutex
	buffers map[uint64]transport.RegionID // by address
}

// New makes a client. It acquires nothing.
func New(cfg Config, deps session.Deps) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s, own, err := deps.Open()
	if err != nil {
		return nil, err
	}
	b, err := base.New(cfg, deps, s)
	if err != nil {
		if own {
			s.Close()
		}
		return nil, err
	}
	c := &Client{b: b, own: own, buffers: map[uint64]transport.RegionID{}}
	c.Calls = store.Calls{Pool: c}
	leases := lease.NewTable(b)
	c.reader = get.New(b, leases)
	c.writer = put.New(b, c.reader.Forget)
	s.OnEpoch(c.writer.RepeatEnds)
	c.table = layers.NewTable(b, c.reader, c.writer, leases)
	c.user = c.table.NewUser()
	if hot := c.reader.Cache(); hot != nil {
		base.ShowCache(deps.Labelled(), hot)
	}
	return c, nil
}

// Ready implements store.Pool.
func (c *Client) Ready(ctx context.Context) (string, error) {
	return session.Ask(ctx, c.b.Session, "ServiceReady", c.b.Master.Ready)
}

// Health reports whether the master answers, without asking it.
func (c *Client) Health() session.Health { return c.b.Session.Health() }

// Hostname implements store.Pool.
func (c *Client) Hostname() string { return c.b.Engine.LocalName() }

// StageCalls returns how many calls the client has made to nodes that stage what it reads from storage tiers.
func (c *Client) StageCalls() uint64 { return c.b.Metrics.StageCalls.Load() }

// TierReads returns how many objects the client has read from storage tiers.
func (c *Client) TierReads() uint64 { return c.b.Metrics.TierReads.Load() }

// Layers implements store.Pool.
func (c *Client) Layers() store.Layers { return c.user }

// NewLayers makes another user of layer-wise sessions. Users are independent of each other. Close it,
// unless the client is closed anyway.
func (c *Client) NewLayers() store.Layers { return c.table.NewUser() }

// Close implements store.Pool.
func (c *Client) Close(ctx context.Context) error {
	c.b.Calls.Close()
	c.mu.Lock()
	buffers := c.buffers
	c.buffers = map[uint64]transport.RegionID{}
	c.mu.Unlock()
	err := errs.Wrap(errs.Internal, "store: close with calls in flight", c.b.Calls.Wait(ctx))
	c.table.Close(ctx)
	if hot := c.reader.Cache(); hot != nil {
		hot.Close()
	}
	c.reader.Close()
	err = errors.Join(err, c.writer.Close(ctx))
	if c.own {
		c.b.Session.Close()
	}
	for _, id := range buffers {
		err = errors.Join(err, c.b.Engine.Deregister(ctx, id))
	}
	return err
}

// Why returns what the master knows of a key. An unknown key is not an error.
func (c *Client) Why(ctx context.Context, key model.Key) (model.Story, error) {
	if err := model.ValidateKey(key); err != nil {
		return model.Story{}, err
	}
	return ask(ctx, c, "Why", func(ctx context.Context) (model.Story, error) { return c.b.Master.Why(ctx, c.b.Caller, key) })
}

// ask makes one call to the master.
func ask[T any](ctx context.Context, c *Client, rpc string, f func(context.Context) (T, error)) (T, error) {
	if err := c.b.Calls.Enter("store"); err != nil {
		var none T
		return none, err
	}
	defer c.b.Calls.Leave()
	return session.Ask(ctx, c.b.Session, rpc, f)
}
