package dispatch

import (
	"time"

	"github.com/mooncake-go/mooncake/core/transfer/path"
	"github.com/mooncake-go/mooncake/core/transfer/peer"
	"github.com/mooncake-go/mooncake/core/transfer/request"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// run brings every job to its end. It returns when nothing of the group is in flight.
func (g *group) run() {
	g.serve()
	g.free()
}

func (g *group) serve() {
	g.prepare()
	if g.next == len(g.jobs) {
		return
	}
	p, err := g.d.Peers.Get(g.peer)
	if err != nil {
		g.endAll(err)
		return
	}
	defer p.Release()
	g.p = p
	if err := p.Admit(); err != nil {
		g.endAll(err)
		return
	}
	if err := g.attach(); err != nil {
		g.endAll(err)
		return
	}
	g.measure()
	for {
		g.stop()
		blocked := g.fill()
		switch {
		case g.inFlight > 0:
			g.await()
		case blocked != nil:
			g.waitForSpace(blocked)
		default:
			if g.worked && !g.silentPeer {
				p.Worked()
			}
			return
		}
	}
}

// prepare sets the jobs up and skips the empty ones.
func (g *group) prepare() {
	now := time.Now()
	limit, bounded := g.ctx.Deadline()
	cuts, own := 0, now.Add(g.timeout())
	for k := range g.jobs {
		j := &g.jobs[k]
		r := &j.task.Req
		j.deadline, j.left = r.Deadline, len(r.Local)
		if j.hasty() {
			g.heard = now
		}
		if r.Until != nil {
			g.until = r.Until
		}
		if j.deadline.IsZero() {
			j.deadline = own
		}
		if bounded && limit.Before(j.deadline) {
			j.deadline = limit
		}
		if j.left == 0 {
			g.end(j, nil)
			continue
		}
		if cuts < maxInFlight {
			cuts += j.left/min(minSlice, g.d.Cfg.SliceSize) + 1
		}
	}
	g.skip()
	g.limit = min(max(cuts, 1), maxInFlight)
	if cap(g.done) < g.limit {
		g.done = make(chan *path.Op, g.limit)
	}
	g.due = g.earliest()
}

// timeout is how long requests without a deadline may take, all together.
func (g *group) timeout() time.Duration {
	if g.d.Cfg.Timeout > 0 {
		return g.d.Cfg.Timeout
	}
	bytes := uint64(0)
	for k := range g.jobs {
		bytes += uint64(len(g.jobs[k].task.Req.Local))
	}
	return request.Patience(bytes)
}

// attach gets the paths of the peer, and ends jobs that cannot wait for them.
func (g *group) attach() error {
	for {
		rt, a, err := g.p.Obtain()
		switch {
		case err != nil:
			return err
		case a == nil:
			g.route = rt
			return nil
		case g.horizon().IsZero():
			return nil
		}
		if err := g.connected(a); err != nil {
			return err
		}
	}
}

// ask looks the peer up anew while its paths stay in use, and gets the paths.
func (g *group) ask() error {
	a, err := g.p.Ask(g.route.Gen)
	if err == nil && a != nil {
		err = g.connected(a)
	}
	if err != nil {
		return err
	}
	return g.attach()
}

// connected waits for a connect to end, at most until the last deadline, and with hasty reads for a
// moment only.
func (g *group) connected(a *peer.Attempt) error {
	defer g.timer.Stop()
	leave := time.Now().Add(g.d.Cfg.Haste)
	for last := g.horizon(); !last.IsZero(); last = g.horizon() {
		wake := last
		if !g.heard.IsZero() && leave.Before(wake) {
			wake = leave
		}
		if !g.due.IsZero() && g.due.Before(wake) {
			wake = g.due
		}
		g.timer.Reset(time.Until(wake))
		select {
		case <-a.Done:
			return a.Err
		case <-g.ctx.Done():
			return errs.WithClass(errs.ClassTransientPeer, "transfer: connect to "+g.peer, errs.Wrap(errs.TransferFail, "", ended(g.ctx)))
		case <-g.timer.C:
		}
		now := time.Now()
		if !g.heard.IsZero() && !now.Before(leave) {
			g.leave(errConnecting)
			leave = last // There are none left.
		}
		g.expire(now, errConnecting)
		if !now.Before(last) {
			return g.late(errConnecting)
		}
	}
	return nil
}
