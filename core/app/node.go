package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/api/rest"
	rpc "github.com/mooncake-go/mooncake/core/api/rpc/client"
	"github.com/mooncake-go/mooncake/core/api/rpc/staging"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/metadata/open"
	"github.com/mooncake-go/mooncake/core/store/client"
	"github.com/mooncake-go/mooncake/core/store/member"
	"github.com/mooncake-go/mooncake/core/store/node"
	"github.com/mooncake-go/mooncake/core/transfer/assembly"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// NodeOptions are the settings of OpenNode that are not configuration.
type NodeOptions struct {
	Log *slog.Logger
	// Engine is used, with its name, in place of an engine of the node's own. The node holds it
	// until the node is closed.
	Engine *Engine
}

// Node is a client that may contribute memory, for programs that are not a role of the pool. Several
// can be open in one process. It is safe for concurrent use.
type Node struct {
	// Client puts and gets; Node has the memory, if any.
	Client *client.Client
	Node   *node.Node

	port  rest.NodePort
	grace time.Duration
	hooks *hooks
}

// nodeStart bounds StartNode, besides the time for its memory.
const nodeStart = 10 * time.Second

// OpenNode starts a node and returns once its memory is mounted. It waits for the master and the
// metadata service for store.max_wait_time. On an error nothing remains. The caller closes the node.
func OpenNode(ctx context.Context, cfg config.Config, builtins []plugin.Factory, o NodeOptions) (*Node, error) {
	n, err := StartNode(ctx, cfg, builtins, o)
	if err != nil {
		return nil, err
	}
	if err := n.Await(ctx, cfg.Store.MaxWaitTime); err != nil {
		return nil, errors.Join(err, n.Close(context.WithoutCancel(ctx)))
	}
	return n, nil
}

// StartNode starts a node, in bounded time. The node joins the pool in the background when the
// master answers; Await waits for that. Until then the calls of its client fail at once with RPCFail,
// or join when they find the master, and memory can be registered. The log names an HTTP port that
// cannot be bound; the node runs without it. On an error nothing remains. The caller closes the node.
func StartNode(ctx context.Context, cfg config.Config, builtins []plugin.Factory, o NodeOptions) (*Node, error) {
	ctx, cancel := context.WithTimeout(ctx, nodeStart+member.MemoryTime(uint64(cfg.Store.GlobalSegmentSize)))
	defer cancel()
	engine, role := engineModules(), "node"
	if o.Engine != nil {
		engine, role = o.Engine.share(), "" // The engine has the admin socket.
	}
	naming := assembly.ByRange
	if cfg.Store.MetadataServer == open.P2PHandshake {
		naming = assembly.ByDaemon
	}
	n := &Node{grace: cfg.Store.UnmountGrace}
	var m *member.Node
	var err error
	n.hooks, err = program(ctx, cfg, builtins, role, o.Log,
		fx.Supply(naming, member.InBackground), engine, rpc.Module(), staging.Module(), member.NodeModule(), fx.Invoke(func(*member.Node) {}),
		rest.NodeModule(), fx.Populate(&m, &n.port), fx.Invoke(func(p rest.NodePort) { p.Optional = true }))
	if err != nil {
		return nil, err
	}
	n.Client, n.Node = m.Client(), m.Store()
	return n, nil
}

// Await returns once the node has joined the pool. It retries for limit, at least once, and returns
// at once with an error that waiting cannot fix. The node continues to retry after an error.
func (n *Node) Await(ctx context.Context, limit time.Duration) error {
	return n.Node.Await(ctx, limit)
}

// HTTPAddress is where health and metrics are served, nil if they are not.
func (n *Node) HTTPAddress() net.Addr { return n.port.Addr() }

// Close waits for calls in progress, in bounded time, removes the node from the pool, and releases
// everything. On an error, memory that may still be touched stays mapped.
func (n *Node) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout+n.grace)
	defer cancel()
	return n.hooks.stop(ctx)
}
