package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/core/store/client"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// ClientOptions are the settings of a client that are not configuration.
type ClientOptions struct {
	Log *slog.Logger
	// AllocWait is how long a put that finds no room keeps asking; 0 fails at once.
	AllocWait time.Duration
}

// Client is a store client with everything below it.
type Client struct {
	Store *client.Client
	peer  *peer
	admin *adminSocket
}

// OpenClient connects a client to a pool. It does not wait for the master: Await does. Close it.
func OpenClient(ctx context.Context, cfg config.Config, builtins []plugin.Factory, o ClientOptions) (*Client, error) {
	p, err := newPeer(cfg, builtins, o.Log)
	if err != nil {
		return nil, err
	}
	if err := p.start(ctx); err != nil {
		return nil, err
	}
	sc := p.clientConfig()
	sc.AllocWait = o.AllocWait
	c, err := client.New(sc, p.deps())
	if err != nil {
		return nil, errors.Join(err, p.stop(context.WithoutCancel(ctx)))
	}
	return &Client{Store: c, peer: p, admin: openAdmin(ctx, cfg, "client", p.catalog, o.Log)}, nil
}

// Await returns once the master answers. It keeps asking for limit, at least once, and returns at
// once with an error that waiting cannot fix.
func (c *Client) Await(ctx context.Context, limit time.Duration) error {
	return c.peer.session.Await(ctx, limit)
}

// Plugins returns the plugins that the client has in use.
func (c *Client) Plugins() []pluginhost.Instance { return c.peer.catalog.Instances() }

// closeTimeout bounds Close.
const closeTimeout = 10 * time.Second

// Close waits for calls under way, bounded, and gives everything back.
func (c *Client) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	return errors.Join(c.Store.Close(ctx), c.peer.stop(ctx), c.admin.stop(ctx))
}
