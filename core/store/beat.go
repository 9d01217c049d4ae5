package store

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// beat keeps the node alive at the master and known to the metadata service until the
// context ends. Changes are logged, the state in between is not.
func (n *Node) beat(ctx context.Context) {
	pause := n.cfg.PingInterval
	checked := time.Now()
	var down, lost bool // of the master, of the metadata service
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		err := n.ping(ctx)
		if ctx.Err() != nil {
			return
		}
		n.mounted.Store(err == nil)
		switch {
		case err != nil && !down:
			n.deps.Log.Warn("the master does not keep this node's memory mounted, trying on", "error", err)
		case err == nil && down:
			n.deps.Log.Info("the memory is mounted at the master again")
		}
		down = err != nil
		if down {
			pause = min(2*pause, n.cfg.MaxPingInterval)
		} else {
			pause = n.cfg.PingInterval
		}
		if time.Since(checked) >= n.cfg.CheckInterval {
			checked = time.Now()
			lost = n.check(ctx, lost)
		}
		timer.Reset(pause)
	}
}

// ping says that the node is alive, and mounts again when the master does not know it.
func (n *Node) ping(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, n.cfg.RPCTimeout)
	defer cancel()
	reply, err := n.master.Ping(call, n.id, model.PingReport{})
	if err != nil || reply.Status != model.ClientNeedRemount {
		return errs.Wrap(errs.RPCFail, "store node: ping", err)
	}
	n.deps.Log.Info("the master does not know this node, mounting again", "segments", len(n.pieces))
	return n.announce(ctx, n.mountAgain)
}

// check publishes again when the metadata service has forgotten the node. It returns
// whether something is wrong with the service.
func (n *Node) check(ctx context.Context, lost bool) bool {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.RPCTimeout)
	defer cancel()
	known, err := n.engine.Published(ctx)
	if err == nil && !known {
		n.deps.Log.Info("the metadata service does not know this node, publishing again")
		err = n.engine.Publish(ctx)
	}
	if ctx.Err() == nil && err != nil && !lost {
		n.deps.Log.Warn("the metadata service does not answer, trying on", "error", err)
	}
	if err == nil && lost {
		n.deps.Log.Info("the metadata service answers again")
	}
	return err != nil
}
