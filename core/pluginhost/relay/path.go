package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// path is one path of the caller's. It uses one inner path at a time. Earlier inner paths may
// still have completions to deliver.
type path struct {
	r    *Relay
	peer transport.Endpoint

	// gate guards the fields below. Submit holds it shared, so no submission is in progress
	// while it is held exclusively.
	gate   sync.RWMutex
	closed bool
	inner  *innerPath // nil while there is none
	next   *innerPath // dialled for a generation that is about to be used
	keys   []transport.Key
	known  map[string]transport.RemoteID
	why    error // the last reason why there is no inner path
	rails  []transport.Rail

	renewing bool          // a renewal is in progress; guarded by gate
	rouse    chan struct{} // holds a token when the renewal shall not pause any longer

	reaping
}

func newPath(r *Relay, peer transport.Endpoint) *path {
	p := &path{r: r, peer: peer, known: map[string]transport.RemoteID{}, rouse: make(chan struct{}, 1)}
	p.wake = make(chan struct{})
	return p
}

// wrapped is the path as the caller gets it.
func (p *path) wrapped() transport.Path {
	if p.r.o.Rails {
		return railed{p}
	}
	return p
}

// Up reports whether operations can be submitted now.
func (p *path) Up() bool {
	p.gate.RLock()
	defer p.gate.RUnlock()
	return p.inner != nil
}

// Import implements transport.Path. The RemoteID stays the same in all generations.
func (p *path) Import(ctx context.Context, k transport.Key) (transport.RemoteID, error) {
	const op = "import a key"
	for {
		p.gate.RLock()
		id, in, closed := p.known[string(k)], p.inner, p.closed
		p.gate.RUnlock()
		switch {
		case closed:
			return 0, p.errClosed()
		case id != 0:
			return id, nil
		case in == nil:
			return 0, p.none(op)
		}
		inner, err := in.path.Import(ctx, k)
		in.gen.observe(ctx, err)
		switch {
		case errors.Is(err, transport.ErrPathClosed) && p.left(in): // Another generation has the caller's path.
			continue
		case err != nil:
			return 0, p.ended(op, err)
		}
		if id, ok := p.note(in, k, inner); ok {
			return id, nil
		}
	}
}

// left reports whether the path uses another inner path by now, or none.
func (p *path) left(in *innerPath) bool {
	p.gate.RLock()
	defer p.gate.RUnlock()
	return p.inner != in
}

// ended replaces the error of an inner path that is closed, because the caller's path is open: the
// process of the inner path is about to end. It returns other errors unchanged.
func (p *path) ended(op string, err error) error {
	if errors.Is(err, transport.ErrPathClosed) {
		return errs.WithClass(errs.ClassTransientPath, p.r.op(op), fmt.Errorf("the plugin's process has ended: %s", err.Error()))
	}
	return err
}

// note assigns an ID to an imported key. It returns false if the inner path changed meanwhile.
func (p *path) note(in *innerPath, k transport.Key, inner transport.RemoteID) (transport.RemoteID, bool) {
	p.gate.Lock()
	defer p.gate.Unlock()
	if p.inner != in && !p.closed {
		return 0, false
	}
	if id := p.known[string(k)]; id != 0 {
		return id, true
	}
	p.keys = append(p.keys, append(transport.Key(nil), k...))
	id := transport.RemoteID(len(p.keys))
	p.known[string(k)] = id
	in.set(int(id)-1, inner, nil)
	return id, true
}

// none is the error of a call that finds no inner path.
func (p *path) none(op string) error {
	if p.r.current() == nil {
		return p.r.refuse(op)
	}
	p.gate.RLock()
	why := p.why
	p.gate.RUnlock()
	return p.notYet(op, why)
}

// notYet is the error of a call that needs a path or key that is not renewed yet. why is the
// error of the last attempt, nil if there was none.
func (p *path) notYet(op string, why error) error {
	err := error(errs.New(errs.TransferFail, p.r.op(op), "the plugin was started again, and the path to the peer is not renewed yet"))
	class := errs.ClassTransientPath
	if why != nil {
		err = wire.Wrap(errs.TransferFail, p.r.op(op)+": the plugin was started again, and the path to the peer cannot be renewed", why)
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
	for _, in := range []*innerPath{p.inner, p.next} {
		p.detach(in)
	}
	p.inner, p.next = nil, nil
	p.gate.Unlock()
	return p.closeInner(ctx)
}

// leave gives up the inner path of a generation.
func (p *path) leave(gen *Generation) {
	p.gate.Lock()
	if in := p.next; in != nil && in.gen == gen {
		p.next = nil
		p.detach(in)
	}
	if in := p.inner; in != nil && in.gen == gen {
		p.inner, p.why = nil, nil
		p.detach(in)
	}
	p.gate.Unlock()
	p.renewSoon()
}

// adopt moves the path to a generation: at once if an inner path was dialled ahead of time.
func (p *path) adopt(gen *Generation) {
	p.gate.Lock()
	if in := p.next; in != nil && in.gen == gen && !p.closed {
		old := p.inner
		p.inner, p.next = in, nil
		p.detach(old)
		p.broadcast()
	}
	p.gate.Unlock()
	p.renewSoon()
}

// moved corrects a path that was dialled in gen while the generation changed.
func (p *path) moved(gen *Generation) {
	p.r.mu.Lock()
	gone := p.r.now == nil || gen.gone
	p.r.mu.Unlock()
	if gone {
		p.leave(gen)
		return
	}
	p.renewSoon()
}
