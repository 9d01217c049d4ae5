package relay

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// closeTime bounds the closing of an inner path. The supervisor kills a process that does not
// answer, which completes its operations.
const closeTime = 10 * time.Second

// innerPath is the part of a path that one generation carries. The gate of the path guards its
// fields.
type innerPath struct {
	gen  *Generation
	path transport.Path
	// remotes are the imported keys, in the order of the path's keys. failed holds the reason
	// why a key is missing, if its import was tried.
	remotes []remote
	failed  map[transport.RemoteID]error
	// same says that remotes and rails have the same IDs here as in the path.
	same  bool
	rails map[transport.RailID]transport.RailID // from the path's IDs to the inner path's

	inFlight atomic.Int64 // accepted and not reaped; counted before acceptance
	left     atomic.Bool  // no more operations are submitted to it

	// empty is done when the path has left it and nothing is in flight, or when closing is
	// done.
	empty    context.Context
	setEmpty context.CancelFunc

	// closing is done when the caller closed the path.
	closing context.Context
	close   context.CancelFunc
	over    chan struct{} // closed when all of its completions are reaped
}

// remote is an imported key as an inner path knows it.
type remote struct {
	id transport.RemoteID
	ok bool
}

// has returns the ID that the inner path gave to an imported key of the path.
func (in *innerPath) has(id transport.RemoteID) (transport.RemoteID, bool) {
	if id == 0 || id > transport.RemoteID(len(in.remotes)) {
		return 0, false
	}
	r := in.remotes[id-1]
	return r.id, r.ok
}

// dial makes an inner path in a generation, without keys.
func (p *path) dial(ctx context.Context, gen *Generation) (*innerPath, error) {
	inner, err := gen.t.Dial(ctx, p.peer)
	gen.observe(ctx, err)
	if err != nil {
		return nil, err
	}
	in := &innerPath{gen: gen, path: inner, same: true, failed: map[transport.RemoteID]error{}, over: make(chan struct{})}
	in.closing, in.close = context.WithCancel(gen.final)
	in.empty, in.setEmpty = context.WithCancel(in.closing)
	if railed, ok := transport.As[transport.Railed](inner); ok && p.r.o.Rails {
		list := railed.Rails()
		p.gate.Lock()
		p.match(in, list)
		p.gate.Unlock()
	}
	gen.hold()
	return in, nil
}

// set records the result of importing the key with index i. The caller holds the gate.
func (in *innerPath) set(i int, id transport.RemoteID, err error) {
	for len(in.remotes) <= i {
		in.remotes = append(in.remotes, remote{})
	}
	in.remotes[i] = remote{id, err == nil}
	name := transport.RemoteID(i + 1)
	if err != nil {
		in.failed[name] = err
		return
	}
	delete(in.failed, name)
	in.same = in.same && id == name
}

// complete imports the keys of the path that an inner path lacks. The error joins the reasons
// why some are still missing.
func (p *path) complete(ctx context.Context, in *innerPath) error {
	var failed error
	for i := 0; ; i++ {
		p.gate.RLock()
		if i >= len(p.keys) || p.closed {
			p.gate.RUnlock()
			return failed
		}
		key := p.keys[i]
		_, has := in.has(transport.RemoteID(i + 1))
		p.gate.RUnlock()
		if has {
			continue
		}
		id, err := in.path.Import(ctx, key)
		in.gen.observe(ctx, err)
		p.gate.Lock()
		in.set(i, id, err)
		p.gate.Unlock()
		failed = errors.Join(failed, err)
		if ctx.Err() != nil {
			return failed
		}
	}
}

// detach drains an inner path in the background. Nothing may be submitted to it any more. The
// caller holds the gate. A nil inner path is ignored.
func (p *path) detach(in *innerPath) {
	if in == nil {
		return
	}
	p.mu.Lock()
	p.draining = append(p.draining, in)
	p.mu.Unlock()
	in.left.Store(true)
	if p.closed {
		in.close()
	}
	// The drain ends with the generation, not with the relay, so that accepted operations
	// complete.
	go p.drain(in)
	p.broadcast()
}

// reaped counts n completions. One of the caller's reapers may have been waiting on the inner
// path before its drain began, and may take its last completions. Nothing else ends the drain
// then.
func (in *innerPath) reaped(n int) {
	if in.inFlight.Add(int64(-n)) == 0 && in.left.Load() {
		in.setEmpty()
	}
}

// drain reaps an inner path until none of its completions are left.
func (p *path) drain(in *innerPath) {
	var dst [64]transport.Completion
	for in.inFlight.Load() > 0 {
		n, err := in.path.Reap(in.empty, dst[:])
		p.push(in, dst[:n])
		if err != nil {
			break
		}
	}
	ctx, cancel := context.WithTimeout(in.gen.final, closeTime)
	err := in.path.Close(ctx)
	cancel()
	if err != nil && in.gen.final.Err() == nil {
		p.r.o.Logger.Debug("cannot close a path of the plugin", "error", err)
	}
	for {
		n, err := in.path.Reap(in.gen.final, dst[:])
		p.push(in, dst[:n])
		if err != nil {
			break
		}
	}
	in.close()
	p.forget(in)
	close(in.over)
	in.gen.release()
}
