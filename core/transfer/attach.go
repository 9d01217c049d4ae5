package transfer

import (
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// earliest returns the first deadline of the open jobs of which nothing is under way, zero
// without any. What is under way has a deadline of its own.
func (g *group) earliest() time.Time {
	var first time.Time
	for i := range g.jobs {
		if j := &g.jobs[i]; !j.ended && j.inFlight == 0 && (first.IsZero() || j.deadline.Before(first)) {
			first = j.deadline
		}
	}
	return first
}

// horizon returns the last deadline of the open jobs, zero without any.
func (g *group) horizon() time.Time {
	var last time.Time
	for i := range g.jobs {
		if j := &g.jobs[i]; !j.ended && j.deadline.After(last) {
			last = j.deadline
		}
	}
	return last
}

// expire ends the jobs whose deadline passed while they wait.
func (g *group) expire(now time.Time, cause error) {
	for i := range g.jobs {
		if j := &g.jobs[i]; !j.ended && j.inFlight == 0 && !now.Before(j.deadline) {
			g.end(j, g.late(cause))
		}
	}
	g.skip()
	g.due = g.earliest()
}

// attach gets the links of the peer, and ends jobs that cannot wait for them.
func (g *group) attach() error {
	for {
		rt, a, err := g.p.obtain()
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

// ask has the peer looked up anew while its links stay in use, and gets the links.
func (g *group) ask() error {
	a, err := g.p.ask(g.route.gen)
	if err == nil && a != nil {
		err = g.connected(a)
	}
	if err != nil {
		return err
	}
	return g.attach()
}

// connected waits for a connect to end, at most until the last deadline.
func (g *group) connected(a *attempt) error {
	defer g.timer.Stop()
	for last := g.horizon(); !last.IsZero(); {
		wake := last
		if !g.due.IsZero() && g.due.Before(wake) {
			wake = g.due
		}
		g.timer.Reset(time.Until(wake))
		select {
		case <-a.done:
			return a.err
		case <-g.ctx.Done():
			return errs.WithClass(errs.ClassTransientPeer, "transfer: connect to "+g.peer, errs.Wrap(errs.TransferFail, "", ended(g.ctx)))
		case <-g.timer.C:
		}
		now := time.Now()
		g.expire(now, errConnecting)
		if !now.Before(last) {
			return g.late(errConnecting)
		}
	}
	return nil
}
