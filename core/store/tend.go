package store

import (
	"context"
	"time"
)

// inside implements member.
func (n *Node) inside() bool { return n.joined.Load() }

// pinged implements member.
func (n *Node) pinged(err error, forgotten bool) {
	if !n.joined.Load() {
		if err == nil {
			n.nudge()
		}
		return
	}
	ok := err == nil && !forgotten
	was := n.mounted.Swap(ok)
	switch {
	case err != nil && was:
		n.deps.Log.Warn("the master does not keep this node's memory mounted, trying on", "error", err)
	case forgotten:
		n.nudge()
	case ok && !was:
		n.deps.Log.Info("the memory is mounted at the master again")
	}
}

// nudge has the loop mount the memory.
func (n *Node) nudge() {
	select {
	case n.remount <- struct{}{}:
	default:
	}
}

// tend joins the pool as soon as the master answers, mounts again when the master has forgotten the
// node, and publishes again when the metadata service has, until the context ends.
func (n *Node) tend(ctx context.Context) {
	ticker := time.NewTicker(n.cfg.CheckInterval)
	defer ticker.Stop()
	for lost, refused := false, false; ; {
		select {
		case <-ctx.Done():
			return
		case <-n.remount:
			if !n.joined.Load() {
				n.join(ctx)
				select { // Pings that were answered meanwhile are old news.
				case <-n.remount:
				default:
				}
				continue
			}
			if !refused {
				n.deps.Log.Info("the master does not know this node, mounting again", "segments", len(n.staying()))
			}
			if err := n.announce(ctx, n.mountAgain); err != nil {
				if ctx.Err() == nil && !refused {
					n.deps.Log.Warn("mounting again failed, trying on", "error", err)
				}
				refused = true
				continue
			}
			refused = false
			n.pinged(nil, false)
		case <-ticker.C:
			if n.joined.Load() {
				lost = n.check(ctx, lost)
			}
		}
	}
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
