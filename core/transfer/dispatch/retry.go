package dispatch

import (
	"fmt"
	"time"

	"github.com/mooncake-go/mooncake/core/transfer/request"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// failed decides what becomes of a slice that ended without success: another rail of the path, the
// same path again, the next path, a new lookup of the peer, or the end of its job.
//
// A quarantined operation is never retried. If an old attempt at a write arrived after a new one
// was reported as done, it would overwrite bytes that were put there since. An old attempt at a
// read would overwrite the caller's buffer. The caller learns that it cannot use the range
// (ErrQuarantined) and can use another.
func (g *group) failed(s *slice) {
	j, c := s.job, s.Result
	err := c.Err
	if err == nil {
		err = errNoReason
	}
	class := errs.ClassOf(err)
	switch {
	case c.Status == transport.Quarantined:
		g.d.Quarantined.Add(1)
		if class == errs.ClassTransientPeer {
			g.shun(err)
		}
		g.quarantine(j, errs.Wrap(errs.TransferFail, "transfer: "+g.peer, fmt.Errorf("%w: %w", request.ErrQuarantined, err)))
		g.recycle(s)
		g.skip()
		return
	case s.hasty() && class == errs.ClassTransientPeer && errs.Is(err, errs.RPCTimeout):
		g.recycle(s)
		g.leave(err)
		return
	case j.ended:
		g.stalled(s)
		g.recycle(s)
		return
	case j.task.Req.Hasty && class == errs.ClassTransientPeer && errs.Is(err, errs.RPCTimeout):
		// Looking the peer up anew, and connecting, would take the time that the caller saves.
		g.shun(err)
		g.recycle(s)
		g.endAll(g.late(err))
		return
	case class == errs.ClassPermanent:
		g.reject(s, errs.Wrap(errs.CodeOf(err), "transfer: "+g.peer, err))
		return
	case !time.Now().Before(j.deadline):
		g.stalled(s)
		g.reject(s, g.late(err))
		return
	}
	s.attempts++
	if s.attempts > g.d.Cfg.Retries {
		g.reject(s, errs.Wrap(errs.TransferFail, fmt.Sprintf("transfer: %s: given up after %d attempts", g.peer, s.attempts), err))
		return
	}
	other := s.path.Rails.Exclude(&s.Claim, class)
	silent := s.silent()
	if silent && (s.quiet || !other && s.rung+1 >= len(g.route.Paths)) {
		// A retry would take as long again; the caller may have another copy.
		g.stalled(s)
		g.recycle(s)
		g.endAll(g.late(err))
		return
	}
	s.quiet = s.quiet || silent
	g.d.Retries.Add(1)
	again := !silent && (class == errs.ClassTransientPath || class == errs.ClassUnknown)
	switch {
	case class == errs.ClassTransientPeer && (silent || s.rung+1 >= len(g.route.Paths)):
		s.toPath(len(g.route.Paths))
	case class == errs.ClassTransientPeer:
		// The endpoint of this transport may be gone while the peer is not.
		g.p.Miss(g.route.Gen)
		s.toPath(s.rung + 1)
		g.d.Failovers.Add(1)
	case other && !s.path.Dead.Load():
		g.d.Reroutes.Add(1)
	case again && !s.again && !s.path.Dead.Load():
		s.toPath(s.rung)
		s.again = true
	default:
		s.toPath(s.rung + 1)
		g.d.Failovers.Add(1)
	}
	s.Result = transport.Completion{Err: err}
	g.push(s)
}

// exhausted handles a slice for which no path is left. It looks the peer up anew once, since the
// peer may have restarted. With missing, a path did not know the range.
func (g *group) exhausted(s *slice, missing bool) {
	cause := s.Result.Err
	switch {
	case cause == nil && missing:
		g.unknown(s)
		return
	case cause == nil:
		cause = errNoPath
	case errs.ClassOf(cause) == errs.ClassLocalDevice: // That says nothing about the peer.
		g.reject(s, errs.Wrap(errs.TransferFail, "transfer: "+g.peer, cause))
		return
	}
	if !g.renewed {
		g.renewed = true
		g.p.Renew(g.route.Gen)
		err := g.attach()
		if err == nil {
			g.push(s)
			return
		}
		cause = err
	} else {
		g.p.Failed(cause)
	}
	g.silentPeer = true
	g.recycle(s)
	g.endAll(errs.WithClass(errs.ClassTransientPeer, "transfer: "+g.peer, errs.Wrap(errs.TransferFail, "", cause)))
}

// unknown looks the peer up anew, once, for a slice whose range no path knows: the peer may have
// registered more memory. The paths work, so the outcome concerns the one request only.
func (g *group) unknown(s *slice) {
	var err error = errs.New(errs.InvalidReplica, "transfer: "+g.peer, "%d bytes at %#x are not in its registered memory", len(s.Local), s.Addr)
	if !g.renewed && !g.p.AskedSince(g.began) {
		g.renewed = true
		failed := g.ask()
		if failed == nil {
			g.push(s)
			return
		}
		err = errs.Wrap(errs.TransferFail, fmt.Sprintf("transfer: %s: %d bytes at %#x are not in its memory as far as known", g.peer, len(s.Local), s.Addr), failed)
	}
	g.reject(s, errs.WithClass(errs.ClassTransientPeer, "", err))
}

// shun notes, once for the group, that the peer does not answer.
func (g *group) shun(err error) {
	if !g.silentPeer {
		g.silentPeer = true
		g.p.Failed(err)
	}
}

// stalled notes a peer that was silent for at least Config.CoolDown. A shorter deadline says
// nothing about the peer.
func (g *group) stalled(s *slice) {
	if g.silentPeer || time.Since(s.Started) < g.d.Cfg.CoolDown || !s.silent() {
		return
	}
	g.silentPeer = true
	g.p.Failed(s.Result.Err)
	g.p.Stale()
}
