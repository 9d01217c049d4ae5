package relay

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// closeTime bounds the closing of a leg; a process that does not answer is killed by those
// who watch it, and its operations complete then.
const closeTime = 10 * time.Second

// leg is a path in one life. Its fields are guarded by the gate of its path.
type leg struct {
	life *Life
	path transport.Path
	// remotes are the imported keys, in the order of the path's. For one that is missing,
	// failed has a reason, if it was tried.
	remotes []remote
	failed  map[transport.RemoteID]error
	// same: the numbers of remotes and rails are those of the path.
	same  bool
	rails map[transport.RailID]transport.RailID // those of the path to those of the leg

	underway atomic.Int64 // accepted and not reaped; counted before they are accepted
	left     atomic.Bool  // nothing is submitted to it any more

	// empty is done when it was left and nothing is under way, and when closing is.
	empty    context.Context
	setEmpty context.CancelFunc

	// closing is done when the caller closed the path.
	closing context.Context
	close   context.CancelFunc
	over    chan struct{} // closed when nothing of it is left to be reaped
}

// remote is an imported key as a leg knows it.
type remote struct {
	id transport.RemoteID
	ok bool
}

// has returns the number of an imported key of the path in the leg.
func (g *leg) has(id transport.RemoteID) (transport.RemoteID, bool) {
	if id == 0 || id > transport.RemoteID(len(g.remotes)) {
		return 0, false
	}
	r := g.remotes[id-1]
	return r.id, r.ok
}

// dial makes a leg in a life, without keys.
func (p *path) dial(ctx context.Context, l *Life) (*leg, error) {
	inner, err := l.t.Dial(ctx, p.peer)
	l.observe(ctx, err)
	if err != nil {
		return nil, err
	}
	g := &leg{life: l, path: inner, same: true, failed: map[transport.RemoteID]error{}, over: make(chan struct{})}
	g.closing, g.close = context.WithCancel(l.final)
	g.empty, g.setEmpty = context.WithCancel(g.closing)
	if railed, ok := transport.As[transport.Railed](inner); ok && p.r.o.Rails {
		list := railed.Rails()
		p.gate.Lock()
		p.match(g, list)
		p.gate.Unlock()
	}
	l.hold()
	return g, nil
}

// set notes what the key with the index i is in the leg. The caller holds the gate.
func (g *leg) set(i int, id transport.RemoteID, err error) {
	for len(g.remotes) <= i {
		g.remotes = append(g.remotes, remote{})
	}
	g.remotes[i] = remote{id, err == nil}
	name := transport.RemoteID(i + 1)
	if err != nil {
		g.failed[name] = err
		return
	}
	delete(g.failed, name)
	g.same = g.same && id == name
}

// complete imports the keys of the path that a leg lacks. The error joins why some are
// still missing.
func (p *path) complete(ctx context.Context, g *leg) error {
	var failed error
	for i := 0; ; i++ {
		p.gate.RLock()
		if i >= len(p.keys) || p.closed {
			p.gate.RUnlock()
			return failed
		}
		key := p.keys[i]
		_, has := g.has(transport.RemoteID(i + 1))
		p.gate.RUnlock()
		if has {
			continue
		}
		id, err := g.path.Import(ctx, key)
		g.life.observe(ctx, err)
		p.gate.Lock()
		g.set(i, id, err)
		p.gate.Unlock()
		failed = errors.Join(failed, err)
		if ctx.Err() != nil {
			return failed
		}
	}
}

// detach has a leg reaped to its end. Nothing is submitted to it any more. The caller
// holds the gate; nil is none.
func (p *path) detach(g *leg) {
	if g == nil {
		return
	}
	p.mu.Lock()
	p.legs = append(p.legs, g)
	p.mu.Unlock()
	g.left.Store(true)
	if p.closed {
		g.close()
	}
	// It ends with its life, not with the relay: what was accepted completes.
	go p.drain(g)
	p.broadcast()
}

// reaped counts n completions. A reaper of the caller's may take the last ones of a leg that
// is being drained, having waited there before; then nothing else would end the drain.
func (g *leg) reaped(n int) {
	if g.underway.Add(int64(-n)) == 0 && g.left.Load() {
		g.setEmpty()
	}
}

// drain reaps a leg until nothing of it is left.
func (p *path) drain(g *leg) {
	var dst [64]transport.Completion
	for g.underway.Load() > 0 {
		n, err := g.path.Reap(g.empty, dst[:])
		p.push(g, dst[:n])
		if err != nil {
			break
		}
	}
	ctx, cancel := context.WithTimeout(g.life.final, closeTime)
	err := g.path.Close(ctx)
	cancel()
	if err != nil && g.life.final.Err() == nil {
		p.r.o.Logger.Debug("a path of a plugin does not close", "error", err)
	}
	for {
		n, err := g.path.Reap(g.life.final, dst[:])
		p.push(g, dst[:n])
		if err != nil {
			break
		}
	}
	g.close()
	p.forget(g)
	close(g.over)
	g.life.release()
}
