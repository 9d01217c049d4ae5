package app

import (
	"context"
	"log/slog"
	"time"

	"go.uber.org/fx"

	rpc "github.com/mooncake-go/mooncake/core/api/rpc/client"
	"github.com/mooncake-go/mooncake/core/api/rpc/staging"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/core/store/client"
	"github.com/mooncake-go/mooncake/core/store/local"
	"github.com/mooncake-go/mooncake/core/store/member"
	"github.com/mooncake-go/mooncake/core/transfer/assembly"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// ClientOptions are the settings of a client that are not configuration.
type ClientOptions struct {
	Log *slog.Logger
	// AllocWait is how long a put that finds no space retries; 0 fails at once.
	AllocWait time.Duration
}

// Client is a store client with the components that it needs.
type Client struct {
	Store   *client.Client
	member  *member.Client
	catalog *pluginhost.Catalog
	hooks   *hooks
}

// OpenClient connects a client to a pool. It does not wait for the master: Await does. The caller
// closes the client.
func OpenClient(ctx context.Context, cfg config.Config, builtins []plugin.Factory, o ClientOptions) (*Client, error) {
	c := &Client{}
	var err error
	c.hooks, err = program(ctx, cfg, builtins, "client", o.Log,
		fx.Supply(assembly.ByRange, member.AllocWait(o.AllocWait)),
		engineModules(), rpc.Module(), staging.Module(), member.ClientModule(), fx.Populate(&c.member, &c.catalog))
	if err != nil {
		return nil, err
	}
	c.Store = c.member.Store()
	return c, nil
}

// Await returns once the master answers. It retries for limit, at least once, and returns at once
// with an error that waiting cannot fix.
func (c *Client) Await(ctx context.Context, limit time.Duration) error {
	return c.member.Await(ctx, limit)
}

// Plugins returns the plugins that the client uses.
func (c *Client) Plugins() []pluginhost.Instance { return c.catalog.Instances() }

// closeTimeout bounds the close of a client, node or engine.
const closeTimeout = 10 * time.Second

// Close waits for calls in progress, in bounded time, and releases everything.
func (c *Client) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	return c.hooks.stop(ctx)
}

// LocalOptions are the settings of OpenLocal that are not configuration.
type LocalOptions struct {
	Log *slog.Logger
	// Socket is where to attach; empty is the socket of the configuration.
	Socket string
	// Buffer is the smallest size of the local buffer, in bytes.
	Buffer uint64
	// Allocator allocates memory that is to be shared; nil for none.
	Allocator *local.Allocator
}

// OpenLocal attaches to the client that another process of this host serves. RPCFail if there is
// none. The caller closes the client.
func OpenLocal(ctx context.Context, cfg config.Config, o LocalOptions) (*local.Client, error) {
	if o.Socket != "" {
		cfg.Store.LocalSocket = o.Socket
	}
	c := local.FromConfig(cfg.Store)
	c.LocalBufferSize = max(c.LocalBufferSize, o.Buffer)
	c.Log, c.Allocator = o.Log, o.Allocator
	return local.Attach(ctx, c)
}
