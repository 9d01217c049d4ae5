package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/mooncake-go/mooncake/core/api/rest"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/metadata/open"
	"github.com/mooncake-go/mooncake/core/store/client"
	"github.com/mooncake-go/mooncake/core/store/node"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// NodeOptions are the settings of OpenNode that are not configuration.
type NodeOptions struct {
	Log *slog.Logger
	// Engine is used in place of one of the node's own, and so is its name. The node holds
	// it until it is closed.
	Engine *Engine
}

// Node is a client that may contribute memory, for programs that are no role of their own:
// both share one session, as in a store node. Several can be open in one process. Safe for
// concurrent use.
type Node struct {
	// Client puts and gets; Node has the memory, which may be none.
	Client *client.Client
	Node   *node.Node

	role *storeRole
	face *rest.Server // nil where there is none
	at   net.Addr     // of face

	admin *adminSocket // nil on the engine of somebody else, who has one
}

// nodeStart bounds what StartNode does, besides the time for its memory.
const nodeStart = 10 * time.Second

// memoryTime is how long memory of size bytes may take to be provided and registered: 1 s for
// each GB. RDMA devices touch and pin all of it, and nothing interrupts them.
func memoryTime(size uint64) time.Duration { return time.Duration(min(size, uint64(24*time.Hour))) }

// OpenNode starts a node and returns once its memory is mounted. It waits for the master and the
// metadata service for store.max_wait_time. On an error nothing is left behind. Close it.
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

// StartNode starts a node, bounded, and has it join the pool in the background, whenever the
// master is there; Await waits for that. Until then its client's calls fail at once with RPCFail,
// or join in when they find the master there, and memory can be registered. An HTTP port that
// cannot be bound is named in the log and done without. On an error nothing is left behind. Close
// it.
func StartNode(ctx context.Context, cfg config.Config, builtins []plugin.Factory, o NodeOptions) (*Node, error) {
	ctx, cancel := context.WithTimeout(ctx, nodeStart+memoryTime(uint64(cfg.Store.GlobalSegmentSize)))
	defer cancel()
	r, err := newSharedStore(cfg, builtins, o)
	if err != nil {
		return nil, err
	}
	n := &Node{role: r}
	if err = r.peer.start(ctx); err == nil {
		err = r.begin(ctx)
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		return nil, errors.Join(err, r.stop(ctx), r.peer.stop(ctx))
	}
	n.Client, n.Node = r.client, r.node.Load()
	if o.Engine == nil {
		n.admin = openAdmin(ctx, cfg, "node", r.peer.catalog, o.Log)
	}
	if cfg.Store.EnableHTTPServer {
		n.serve(ctx, cfg.Store, o.Log)
	}
	return n, nil
}

// Await returns once the node has joined the pool. It keeps trying for limit, at least once, and
// returns at once with an error that waiting cannot fix. The node goes on trying after an error.
func (n *Node) Await(ctx context.Context, limit time.Duration) error {
	return n.Node.Await(ctx, limit)
}

// serve binds the port of health and metrics.
func (n *Node) serve(ctx context.Context, s config.Store, log *slog.Logger) {
	ln, err := listen(ctx, "node port", bindFor(hostPart(s.LocalHostname)), s.HTTPPort, "http_port")
	if err != nil {
		log.Warn("health and metrics are not served", "error", err)
		return
	}
	n.face = rest.NewServer(rest.NewNodeHandler(n.role.started, n.role.metrics, log), log)
	n.at = ln.Addr()
	n.face.Start(ln)
}

// HTTPAddress is where health and metrics are served, nil where they are not.
func (n *Node) HTTPAddress() net.Addr { return n.at }

// Close waits for calls under way, bounded, takes the node out of the pool and gives
// everything back. On an error memory that may still be touched stays mapped.
func (n *Node) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout+n.role.cfg.StopGrace)
	defer cancel()
	var err error
	if n.face != nil {
		err = n.face.Stop(ctx)
	}
	err = errors.Join(err, n.role.stop(ctx), n.role.peer.stop(ctx))
	if n.admin != nil {
		err = errors.Join(err, n.admin.stop(ctx))
	}
	return err
}

// newSharedStore is newStore for a process that may have several.
func newSharedStore(cfg config.Config, builtins []plugin.Factory, o NodeOptions) (*storeRole, error) {
	if o.Engine != nil {
		r, err := newStoreOn(newPeerOn(o.Engine, cfg, o.Log), cfg)
		if err == nil {
			r.cfg.SharedEngine = true
		}
		return r, err
	}
	r, err := newStore(cfg, builtins, o.Log)
	if err != nil {
		return nil, err
	}
	r.peer.nameIsDaemon = cfg.Store.MetadataServer == open.P2PHandshake
	return r, nil
}
