package dispatch

import (
	"time"

	"github.com/mooncake-go/mooncake/core/transfer/peer"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

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

// connected waits for a connect to end, at most until the last deadline.
func (g *group) connected(a *peer.Attempt) error {
	defer g.timer.Stop()
	for last := g.horizon(); !last.IsZero(); {
		wake := last
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
		g.expire(now, errConnecting)
		if !now.Before(last) {
			return g.late(errConnecting)
		}
	}
	return nil
}
