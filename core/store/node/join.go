package node

import (
	"context"
	"log/slog"
	"time"
)

// Await returns once the memory is mounted. It tries for limit, at least once, and returns at once
// with an error that waiting cannot fix. After an error the node goes on trying in the background,
// and so does a call to the master that comes meanwhile: the first call that reaches the master
// waits for the mount, which takes a moment.
func (n *Node) Await(ctx context.Context, limit time.Duration) error {
	err := n.session.Retry(ctx, limit, n.attempt)
	if err != nil {
		n.mu.Lock()
		n.late = true
		n.mu.Unlock()
	}
	return err
}

// Joined reports whether the memory was mounted once.
func (n *Node) Joined() bool { return n.joined.Load() }

// attempt asks for the master and, if it answers, waits until the loop has tried to join.
func (n *Node) attempt(ctx context.Context) error {
	attempts := n.attempts.Load()
	if n.joined.Load() {
		return nil
	}
	if err := n.session.Reach(ctx); err != nil {
		return err
	}
	if err := n.session.Until(ctx, func() bool { return n.joined.Load() || n.attempts.Load() > attempts }); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.joinErr
}

// join publishes and mounts for the first time, and starts the tasks of a mounted node. The loop
// calls it.
func (n *Node) join(ctx context.Context) {
	err := n.announce(ctx, n.mountAll)
	n.mu.Lock()
	known := n.joinErr != nil
	n.joinErr = err
	n.open = err == nil
	late := n.late
	n.mu.Unlock()
	switch {
	case err == nil:
		n.mounted.Store(true)
		n.joined.Store(true)
		n.loop.Go(func() { n.tasks.run(ctx) })
		level := slog.LevelInfo
		if late {
			level = slog.LevelWarn // As visible as the failure before.
		}
		n.deps.Log.Log(ctx, level, "memory is mounted", "segments", len(n.Segments()), "name", n.engine.LocalName(), "bytes", n.Size(),
			"guarding_transports", n.engine.Guarding())
	case late && !known && ctx.Err() == nil:
		n.deps.Log.Warn("mounting failed, trying on", "error", err)
	}
	n.attempts.Add(1)
	n.session.TriedToJoin()
}

// Pinged implements session.Member.
func (n *Node) Pinged(err error, forgotten bool) {
	if !n.joined.Load() {
		if err == nil {
			n.requestMount()
		}
		return
	}
	ok := err == nil && !forgotten
	was := n.mounted.Swap(ok)
	switch {
	case err != nil && was:
		n.deps.Log.Warn("the master does not keep this node's memory mounted, trying on", "error", err)
	case forgotten:
		n.requestMount()
	case ok && !was:
		n.deps.Log.Info("the memory is mounted at the master again")
	}
}

// requestMount makes the loop mount the memory.
func (n *Node) requestMount() { signal(n.remount) }

// keepMounted joins the pool as soon as the master answers, mounts again when the master has
// forgotten the node, and publishes again when the metadata service has, until the context ends.
func (n *Node) keepMounted(ctx context.Context) {
	ticker := time.NewTicker(n.cfg.CheckInterval)
	defer ticker.Stop()
	for lost, refused := false, false; ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			n.refused.report(n.deps)
			if n.joined.Load() {
				lost = n.check(ctx, lost)
			}
			continue
		case <-n.remount:
		}
		if !n.joined.Load() {
			n.join(ctx)
			select { // Requests of pings that the master answered meanwhile are outdated.
			case <-n.remount:
			default:
			}
			continue
		}
		if !refused {
			n.deps.Log.Info("the master does not know this node, mounting again", "segments", len(n.staying()))
		}
		err := n.announce(ctx, n.mountAll)
		if err != nil && ctx.Err() == nil && !refused {
			n.deps.Log.Warn("mounting again failed, trying on", "error", err)
		}
		if refused = err != nil; !refused {
			n.session.Answered()
			n.Pinged(nil, false)
		}
	}
}

// check publishes again when the metadata service has forgotten the node. It returns whether the
// service failed.
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
