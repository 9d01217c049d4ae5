package tcp

import (
	"fmt"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/socket"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// hastyPatience is how long a peer may owe answers whose machine has acknowledged all that was
// sent, or takes no more: the network has done its part, so that the process there stands still.
const hastyPatience = time.Second

// look brings it up to date and returns for how long that has been so. Bytes that the kernel has
// not sent count as taken only while the peer's receive window holds them back. Otherwise they wait
// for the network: a full queue of the local device drops packets, and the kernel then takes them
// for unsent.
func (t *taken) look(g *socket.Gauge, now time.Time) time.Duration {
	moved, limited := g.Moved(), g.Limited.Load()
	network := g.Unacked.Load() > 0 || (g.Unsent.Load() > 0 && limited == t.limited)
	if moved != t.moved || network || t.since.IsZero() {
		t.since = now
	}
	t.moved, t.limited = moved, limited
	return now.Sub(t.since)
}

// giveUpHasty fails the hasty writes that wait for a process that stands still: those on its
// connections, and those that no connection takes because of it. The caller holds path.mu.
func (p *path) giveUpHasty(now time.Time) {
	if p.peer.Upstream != 0 {
		return
	}
	still, moving := false, false
	for _, c := range p.conns {
		switch {
		case !c.up:
		case !c.owed():
			c.taken.since, moving = time.Time{}, true
		case c.taken.look(&c.gauge, now) < hastyPatience:
			moving = true
		default:
			still = true
			for _, ch := range c.slots {
				if ch != nil && ch.op != nil {
					p.giveUp(ch.op)
				}
			}
		}
	}
	if !still || moving {
		return
	}
	for o := range p.Active() {
		if o.link.Queued() {
			p.giveUp(o)
		}
	}
}

func (p *path) giveUp(o *op) {
	if !o.Hasty || o.Kind != transport.Write || o.err != nil {
		return
	}
	p.abort(o, &errs.Error{
		Code: errs.RPCTimeout, Class: errs.ClassTransientPeer, Op: p.Name(),
		Err: fmt.Errorf("the peer's machine takes bytes, and its process has not answered for %s", hastyPatience),
	}, true)
}
