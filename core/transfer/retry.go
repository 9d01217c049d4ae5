package transfer

import (
	"context"
	"fmt"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// failed decides what becomes of a slice that ended without success: another rail of the
// link, the same link once more, the next link, the peer looked up anew, or the end of its
// job.
//
// A quarantined operation is never tried again. An old attempt at a write that arrives
// after a new one was reported as done would overwrite what was put there since; one at a
// read, what the caller did with the buffer. The caller learns that the range is lost to
// it (ErrQuarantined) and can use another.
func (g *group) failed(s *slice) {
	j, c := s.job, s.result
	err := c.Err
	if err == nil {
		err = errNoReason
	}
	class := errs.ClassOf(err)
	switch {
	case c.Status == transport.Quarantined:
		g.d.quarantined.Add(1)
		if class == errs.ClassTransientPeer {
			g.shun(err)
		}
		g.quarantine(j, errs.Wrap(errs.TransferFail, "transfer: "+g.peer, fmt.Errorf("%w: %w", ErrQuarantined, err)))
		g.recycle(s)
		g.skip()
		return
	case j.ended:
		g.stalled(s)
		g.recycle(s)
		return
	case j.task.req.Hasty && class == errs.ClassTransientPeer && errs.Is(err, errs.RPCTimeout):
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
	if s.attempts > g.d.cfg.Retries {
		g.reject(s, errs.Wrap(errs.TransferFail, fmt.Sprintf("transfer: %s: given up after %d attempts", g.peer, s.attempts), err))
		return
	}
	other := s.path.rails.exclude(&s.claim, class)
	silent := s.silent()
	if silent && (s.quiet || !other && s.rung+1 >= len(g.route.paths)) {
		// Another attempt would take as long again; the caller may have another copy.
		g.stalled(s)
		g.recycle(s)
		g.endAll(g.late(err))
		return
	}
	s.quiet = s.quiet || silent
	g.d.retries.Add(1)
	again := !silent && (class == errs.ClassTransientPath || class == errs.ClassUnknown)
	switch {
	case class == errs.ClassTransientPeer && (silent || s.rung+1 >= len(g.route.paths)):
		s.toPath(len(g.route.paths))
	case class == errs.ClassTransientPeer:
		// What answers there for this transport may be gone while the peer is not.
		g.p.miss(g.route.gen)
		s.toPath(s.rung + 1)
		g.d.failovers.Add(1)
	case other && !s.path.dead.Load():
		g.d.reroutes.Add(1)
	case again && !s.again && !s.path.dead.Load():
		s.toPath(s.rung)
		s.again = true
	default:
		s.toPath(s.rung + 1)
		g.d.failovers.Add(1)
	}
	s.result = transport.Completion{Err: err}
	g.push(s)
}

// exhausted is the end of the links for a slice. The peer is looked up anew once, since it
// may have restarted. missing: a link did not know the range.
func (g *group) exhausted(s *slice, missing bool) {
	cause := s.result.Err
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
		g.p.renew(g.route.gen)
		err := g.attach()
		if err == nil {
			g.push(s)
			return
		}
		cause = err
	} else {
		g.p.failed(cause)
	}
	g.silentPeer = true
	g.recycle(s)
	g.endAll(errs.WithClass(errs.ClassTransientPeer, "transfer: "+g.peer, errs.Wrap(errs.TransferFail, "", cause)))
}

// unknown has the peer looked up anew, once, for a slice whose range no link knows: it may
// have registered more memory. The links work, so that whatever comes of it concerns the
// one request only.
func (g *group) unknown(s *slice) {
	var err error = errs.New(errs.InvalidReplica, "transfer: "+g.peer, "%d bytes at %#x are not in its registered memory", len(s.local), s.addr)
	if !g.renewed && !g.p.askedSince(g.began) {
		g.renewed = true
		failed := g.ask()
		if failed == nil {
			g.push(s)
			return
		}
		err = errs.Wrap(errs.TransferFail, fmt.Sprintf("transfer: %s: %d bytes at %#x are not in its memory as far as known", g.peer, len(s.local), s.addr), failed)
	}
	g.reject(s, errs.WithClass(errs.ClassTransientPeer, "", err))
}

// shun notes, once for the group, that the peer does not answer.
func (g *group) shun(err error) {
	if !g.silentPeer {
		g.silentPeer = true
		g.p.failed(err)
	}
}

// stalled notes a peer that was silent for a while worth mentioning: a caller in a hurry
// says nothing about its peer.
func (g *group) stalled(s *slice) {
	if g.silentPeer || time.Since(s.started) < g.d.cfg.CoolDown || !s.silent() {
		return
	}
	g.silentPeer = true
	g.p.failed(s.result.Err)
	g.p.stale()
}

// late is the error of a job whose deadline passed.
func (g *group) late(cause error) error {
	if cause == nil {
		cause = context.DeadlineExceeded
	}
	return errs.WithClass(errs.ClassTransientPeer, "transfer: "+g.peer, errs.Wrap(errs.TransferFail, "", fmt.Errorf("%w: %w", ErrTimeout, cause)))
}

// errRestarted keeps the memory of two lives of a peer from being mixed in one request.
func errRestarted(peer string) error {
	return errs.New(errs.TransferFail, "transfer: "+peer, "the peer restarted in the middle of the request")
}
