package store

import (
	"context"
	"log/slog"
	"time"
)

// Await returns once the memory is mounted. It keeps trying for limit, at least once, and returns
// at once with an error that waiting cannot fix. After an error the node goes on trying in the
// background, and a call to the master that is made meanwhile joins in: the first one that finds
// the master there waits for the mount, which takes a moment.
func (n *Node) Await(ctx context.Context, limit time.Duration) error {
	err := n.session.persist(ctx, limit, n.attempt)
	if err != nil {
		n.mu.Lock()
		n.late = true
		n.mu.Unlock()
	}
	return err
}

// Joined reports whether the memory was mounted once: the node has begun its work.
func (n *Node) Joined() bool { return n.joined.Load() }

// attempt asks for the master and, where it answers, waits until the loop has tried to join.
func (n *Node) attempt(ctx context.Context) error {
	tries := n.tries.Load()
	if n.joined.Load() {
		return nil
	}
	if err := n.session.knock(ctx); err != nil {
		return err
	}
	if err := n.session.until(ctx, func() bool { return n.joined.Load() || n.tries.Load() > tries }); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.joinErr
}

// join publishes and mounts for the first time, and begins what a mounted node does. The loop
// calls it.
func (n *Node) join(ctx context.Context) {
	err := n.announce(ctx, n.mountFirst)
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
		n.deps.Log.Log(ctx, level, "memory is mounted", "segments", len(n.Segments()), "name", n.engine.LocalName(), "bytes", n.Size())
	case late && !known && ctx.Err() == nil:
		n.deps.Log.Warn("mounting failed, trying on", "error", err)
	}
	n.tries.Add(1)
	n.session.joined()
}

// mountFirst mounts the pieces at a master that has not had them before. Without any, the
// master only gets to know the node.
func (n *Node) mountFirst(ctx context.Context) error {
	if pieces := n.staying(); len(pieces) > 0 {
		return n.mountEach(ctx, pieces)
	}
	return n.mountAgain(ctx)
}
