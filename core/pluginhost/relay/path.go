package relay

import (
	"context"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// path is one path of the caller's. It goes over one leg at a time; legs of before may
// still have completions to give.
type path struct {
	r    *Relay
	peer transport.Endpoint

	// gate is held shared by Submit and exclusively to change what is below it: who holds
	// it so finds no submission under way.
	gate   sync.RWMutex
	closed bool
	leg    *leg // nil while there is none
	next   *leg // laid beforehand for a life that is about to be used
	keys   []transport.Key
	known  map[string]transport.RemoteID
	why    error // the last reason why there is no leg
	rails  []transport.Rail

	renewing bool          // a renewal is under way; guarded by gate
	rouse    chan struct{} // holds a token when it shall not wait any longer

	reaping
}

func newPath(r *Relay, peer transport.Endpoint) *path {
	p := &path{r: r, peer: peer, known: map[string]transport.RemoteID{}, rouse: make(chan struct{}, 1)}
	p.wake = make(chan struct{})
	return p
}

// face is the path as the caller gets it.
func (p *path) face() transport.Path {
	if p.r.o.Rails {
		return railed{p}
	}
	return p
}

// Up reports whether operations can be submitted now.
func (p *path) Up() bool {
	p.gate.RLock()
	defer p.gate.RUnlock()
	return p.leg != nil
}

// Import implements transport.Path. The RemoteID stays the same over all lives.
func (p *path) Import(ctx context.Context, k transport.Key) (transport.RemoteID, error) {
	const op = "import a key"
	for {
		p.gate.RLock()
		id, g, closed := p.known[string(k)], p.leg, p.closed
		p.gate.RUnlock()
		switch {
		case closed:
			return 0, p.errClosed()
		case id != 0:
			return id, nil
		case g == nil:
			return 0, p.none(op)
		}
		inner, err := g.path.Import(ctx, k)
		g.life.observe(ctx, err)
		if err != nil {
			return 0, err
		}
		if id, ok := p.note(g, k, inner); ok {
			return id, nil
		}
	}
}

// note gives an imported key its number; false when the leg changed meanwhile.
func (p *path) note(g *leg, k transport.Key, inner transport.RemoteID) (transport.RemoteID, bool) {
	p.gate.Lock()
	defer p.gate.Unlock()
	if p.leg != g && !p.closed {
		return 0, false
	}
	if id := p.known[string(k)]; id != 0 {
		return id, true
	}
	p.keys = append(p.keys, append(transport.Key(nil), k...))
	id := transport.RemoteID(len(p.keys))
	p.known[string(k)] = id
	g.set(int(id)-1, inner, nil)
	return id, true
}

// none is the error of who finds no leg.
func (p *path) none(op string) error {
	if p.r.current() == nil {
		return p.r.refuse(op)
	}
	p.gate.RLock()
	why := p.why
	p.gate.RUnlock()
	return p.notYet(op, why)
}

// notYet is the error of who needs what is not renewed yet.
func (p *path) notYet(op string, why error) error {
	err := error(errs.New(errs.TransferFail, p.r.op(op), "the plugin was started again, and the path to the peer is not renewed yet"))
	class := errs.ClassTransientPath
	if why != nil {
		err = errs.Wrap(errs.TransferFail, p.r.op(op)+": the plugin was started again, and the path to the peer cannot be renewed", why)
		if errs.ClassOf(why) == errs.ClassTransientPeer {
			class = errs.ClassTransientPeer
		}
	}
	return errs.WithClass(class, "", err)
}

func (p *path) errClosed() error {
	return errs.WithClass(errs.ClassTransientPath, p.r.o.ID.String(), transport.ErrPathClosed)
}

// Close implements transport.Path.
func (p *path) Close(ctx context.Context) error {
	p.r.mu.Lock()
	delete(p.r.paths, p)
	p.r.mu.Unlock()
	p.gate.Lock()
	p.closed = true
	for _, g := range []*leg{p.leg, p.next} {
		p.detach(g)
	}
	p.leg, p.next = nil, nil
	p.gate.Unlock()
	return p.closeLegs(ctx)
}

// leave gives up the leg of a life.
func (p *path) leave(l *Life) {
	p.gate.Lock()
	if g := p.next; g != nil && g.life == l {
		p.next = nil
		p.detach(g)
	}
	if g := p.leg; g != nil && g.life == l {
		p.leg, p.why = nil, nil
		p.detach(g)
	}
	p.gate.Unlock()
	p.renewSoon()
}

// adopt goes over to a life, at once where a leg was laid beforehand.
func (p *path) adopt(l *Life) {
	p.gate.Lock()
	if g := p.next; g != nil && g.life == l && !p.closed {
		old := p.leg
		p.leg, p.next = g, nil
		p.detach(old)
		p.broadcast()
	}
	p.gate.Unlock()
	p.renewSoon()
}

// moved puts a path right that was made while the life changed from l to another.
func (p *path) moved(l *Life) {
	p.r.mu.Lock()
	gone := p.r.now == nil || l.gone
	p.r.mu.Unlock()
	if gone {
		p.leave(l)
		return
	}
	p.renewSoon()
}
