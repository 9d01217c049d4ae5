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
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
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
	Client *store.Client
	Node   *store.Node

	role *storeRole
	face *rest.Server // nil where there is none
	at   net.Addr     // of face

	admin *adminSocket // nil on the engine of somebody else, who has one
}

const (
	// nodeStart bounds OpenNode, besides the time for its memory.
	nodeStart = 10 * time.Second
	// firstAnswer is how long the master may take to say that it is there.
	firstAnswer = 5 * time.Second
)

// memoryTime is how long memory of size bytes may take to be provided and registered: 1 s for
// each GB. RDMA devices touch and pin all of it, and nothing interrupts them.
func memoryTime(size uint64) time.Duration { return time.Duration(min(size, uint64(24*time.Hour))) }

// OpenNode starts a node and returns once its memory is mounted, bounded. The master has to answer;
// it is asked once, so that a caller with a master that is down hears of it within seconds.
// An HTTP port that cannot be bound is named in the log and done without. On an error
// nothing is left behind. Close it.
func OpenNode(ctx context.Context, cfg config.Config, builtins []plugin.Factory, o NodeOptions) (*Node, error) {
	ctx, cancel := context.WithTimeout(ctx, nodeStart+memoryTime(uint64(cfg.Store.GlobalSegmentSize)))
	defer cancel()
	cfg.Store.MaxWaitTime = 0
	r, err := newSharedStore(cfg, builtins, o)
	if err != nil {
		return nil, err
	}
	n := &Node{role: r}
	if err := n.open(ctx); err != nil {
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

func (n *Node) open(ctx context.Context) error {
	if err := n.role.peer.start(ctx); err != nil {
		return err
	}
	// Before any memory is mapped, and also where there is none to mount.
	ask, cancel := context.WithTimeout(ctx, firstAnswer)
	defer cancel()
	if _, err := n.role.peer.master.Ready(ask); err != nil {
		return errs.WithHint(err, "check that the master is running and reachable from here")
	}
	return n.role.start(ctx)
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
