package node

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
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

// Joined reports whether memory was mounted once, at the master of any cell.
func (n *Node) Joined() bool {
	return slices.ContainsFunc(n.joinedCells(), func(c *cell) bool { return c.joined.Load() })
}

// whole reports whether the memory was mounted once at the masters of all cells.
func (n *Node) whole() bool {
	all := n.joinedCells()
	return len(all) > 0 && !slices.ContainsFunc(all, func(c *cell) bool { return !c.joined.Load() })
}

// attempt asks for the master and, if it answers, waits until the loops have tried to join.
func (n *Node) attempt(ctx context.Context) error {
	all := n.joinedCells()
	before := make([]uint64, len(all))
	for i, c := range all {
		before[i] = c.attempts.Load()
	}
	if n.whole() {
		return nil
	}
	if err := n.session.Reach(ctx); err != nil {
		return err
	}
	if all == nil {
		return errs.WithClass(errs.ClassTransientPeer, "", errs.New(errs.UnavailableInCurrentStatus, "store node", "it is not known yet how many cells the pool has"))
	}
	tried := func(c *cell) bool { return c.joined.Load() || c.attempts.Load() > before[c.index] }
	if err := n.session.Until(ctx, func() bool { return !slices.ContainsFunc(all, func(c *cell) bool { return !tried(c) }) }); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range all {
		if c.joinErr != nil && !c.joined.Load() {
			return c.joinErr
		}
	}
	return nil
}

// join publishes and mounts for the first time, and starts the tasks of a mounted node. The loop
// calls it.
func (c *cell) join(ctx context.Context) {
	err := c.announce(ctx, c.mountAll)
	c.mu.Lock()
	known := c.joinErr != nil
	c.joinErr = err
	late := c.late
	c.mu.Unlock()
	switch {
	case err == nil:
		now := time.Now()
		c.since.Store(&now)
		c.mounted.Store(true)
		c.joined.Store(true)
		c.fetching.Do(func() {
			c.loop.Go(func() { c.tasks.run(ctx) })
			if c.saves != nil {
				c.loop.Go(func() {
					for _, x := range c.staying() {
						if x.tier != nil {
							c.saves.suspect(x, x.tier.disk.Lost()...)
						}
					}
					c.saves.run(ctx)
				})
			}
		})
		c.entered(ctx, late)
	case late && !known && ctx.Err() == nil:
		c.deps.Log.Warn("mounting failed, trying on", "error", err)
	}
	c.attempts.Add(1)
	c.session.TriedToJoin()
}

// entered opens a node that has joined everywhere.
func (n *Node) entered(ctx context.Context, late bool) {
	if !n.whole() {
		return
	}
	n.mu.Lock()
	first := !n.open && ctx.Err() == nil
	n.open = n.open || first
	n.mu.Unlock()
	if !first {
		return
	}
	level := slog.LevelInfo
	if late {
		level = slog.LevelWarn // As visible as the failure before.
	}
	n.deps.Log.Log(ctx, level, "memory is mounted", "segments", len(n.Segments()), "name", n.engine.LocalName(), "bytes", n.Size(),
		"guarding_transports", n.engine.Guarding())
	n.mu.Lock()
	blind := slices.ContainsFunc(n.segments, func(s *segment) bool { return s.Protocol == "tcp" && !n.countsWrites(s) })
	n.mu.Unlock()
	if blind && slices.ContainsFunc(n.engine.Descriptor().Transports, func(t metadata.TransportEndpoint) bool { return t.Name == "tcp" }) {
		n.deps.Log.Warn("transport tcp runs as a subprocess and cannot count the bytes that peers write: what clients of upstream's releases up to 0.3.11.post1 put here " +
			"may be read before all of it has arrived. Set plugins.transport.tcp.mode to inprocess in a pool that has such clients")
	}
}

// Pinged implements session.Member.
func (n *Node) Pinged(reply model.PingReply, err error) {
	for _, c := range n.joinedCells() {
		p := reply.Of(c.index)
		n.clocks.heard(reply.Sent, p.Clock)
		if err != nil {
			p.Err = err
		}
		c.pinged(p.Err, p.Status == model.ClientNeedRemount, reply.Sent)
	}
}

// pinged takes the answer to a ping that was sent at a time.
func (c *cell) pinged(err error, forgotten bool, sent time.Time) {
	if !c.joined.Load() {
		if err == nil {
			c.requestMount()
		}
		if err == nil || c.of == 1 {
			return
		}
		c.mu.Lock()
		c.joinErr = err
		c.mu.Unlock()
		c.attempts.Add(1)
		return
	}
	if since := c.since.Load(); err == nil && forgotten && since != nil && !sent.After(*since) {
		return // The master has learned of the node after it answered.
	}
	ok := err == nil && !forgotten
	was := c.mounted.Swap(ok)
	switch {
	case err != nil && was:
		c.deps.Log.Warn("the master does not keep this node's memory mounted, trying on", "error", err)
	case err == nil && forgotten:
		c.requestMount()
	case ok && !was:
		c.deps.Log.Info("the memory is mounted at the master again")
	}
}

// requestMount makes the loop mount the memory.
func (c *cell) requestMount() { signal(c.remount) }

// keepMounted joins the pool as soon as the master answers, and mounts again when the master has
// forgotten the node, until the context ends.
func (c *cell) keepMounted(ctx context.Context) {
	for refused := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-c.remount:
		}
		if !c.joined.Load() {
			c.join(ctx)
			select { // Requests of pings that the master answered meanwhile are outdated.
			case <-c.remount:
			default:
			}
			continue
		}
		if !refused {
			c.deps.Log.Info("the master does not know this node, mounting again", "segments", len(c.staying()))
		}
		err := c.announce(ctx, c.mountAll)
		if err != nil && ctx.Err() == nil && !refused {
			c.deps.Log.Warn("mounting again failed, trying on", "error", err)
		}
		if refused = err != nil; !refused {
			c.session.Answered()
			now := time.Now()
			c.since.Store(&now)
			c.pinged(nil, false, now)
		}
	}
}

// checkPublished publishes again when the metadata service has forgotten the node, until the context ends.
func (n *Node) checkPublished(ctx context.Context) {
	ticker := time.NewTicker(n.cfg.CheckInterval)
	defer ticker.Stop()
	for lost := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		n.refused.report(n.deps)
		if n.Joined() {
			lost = n.check(ctx, lost)
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
