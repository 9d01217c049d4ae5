package reference

import (
	"context"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// ownLimit ends operations without a deadline.
const ownLimit = time.Minute

// path implements transport.Path. Submit carries the operations out.
type path struct {
	from        *node
	name        string
	incarnation uint64

	mu       sync.Mutex
	imported []key                         // by RemoteID - 1
	waiting  map[*transport.Op]*time.Timer // for a peer that never answers, until they fail
	done     []finished
	bytes    int // of accepted operations that were not reaped
	closed   bool
	deliver  func(transport.Completion) bool // nil if completions go to Reap
	news     chan struct{}                   // closed when done grows or the path closes; nil if no reaper waits
}

// finished is a completion and the bytes that it returns to the window.
type finished struct {
	transport.Completion
	bytes int
}

// Import implements transport.Path.
func (p *path) Import(ctx context.Context, k transport.Key) (transport.RemoteID, error) {
	d, err := decodeKey(k)
	if err != nil {
		return 0, err
	}
	if d.incarnation != p.incarnation {
		return 0, errs.WithClass(errs.ClassTransientPeer, "import", errs.New(errs.InvalidParams, "", "the key is of another incarnation than this path"))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return 0, transport.ErrPathClosed
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	p.imported = append(p.imported, d)
	return transport.RemoteID(len(p.imported)), nil
}

// Submit implements transport.Path.
func (p *path) Submit(ops []transport.Op) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range ops {
		if p.closed {
			return i, transport.ErrPathClosed
		}
		if err := p.check(&ops[i]); err != nil {
			return i, err
		}
		if p.bytes+len(p.waiting)+len(p.done) >= p.from.cfg.Window { // Empty operations count too.
			return i, nil
		}
		p.bytes += len(ops[i].Local)
		p.start(&ops[i])
	}
	return len(ops), nil
}

// check refuses operations that are known to be wrong at Submit.
func (p *path) check(o *transport.Op) error {
	bad := func(format string, args ...any) error {
		return errs.WithClass(errs.ClassPermanent, "submit", errs.New(errs.InvalidParams, "", format, args...))
	}
	switch {
	case o.Kind != transport.Read && o.Kind != transport.Write:
		return bad("operation %d is neither a read nor a write (%d)", o.ID, o.Kind)
	case o.Remote == 0 || uint64(o.Remote) > uint64(len(p.imported)):
		return bad("operation %d names memory of the peer that was not imported (%d)", o.ID, o.Remote)
	case len(o.Local) > 0 && !p.from.cfg.LocalAny && !p.from.local(o.Local):
		return bad("the buffer of operation %d is not registered", o.ID)
	}
	if size := p.imported[o.Remote-1].size; o.Offset > size || uint64(len(o.Local)) > size-o.Offset {
		return bad("operation %d: %d bytes at %d reach past the end of a region of %d bytes", o.ID, len(o.Local), o.Offset, size)
	}
	return nil
}

// Extras implements transport.Extended.
func (p *path) Extras() transport.Extras {
	return transport.Extras{Checksums: true, Deliver: func(f func(transport.Completion) bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.deliver = f
	}}
}

// Reap implements transport.Path.
func (p *path) Reap(ctx context.Context, dst []transport.Completion) (int, error) {
	for len(dst) > 0 {
		p.mu.Lock()
		n := min(len(dst), len(p.done))
		for i, f := range p.done[:n] {
			dst[i] = f.Completion
			p.bytes -= f.bytes
		}
		p.done = p.done[n:]
		if n == 0 && p.news == nil {
			p.news = make(chan struct{})
		}
		news, closed := p.news, p.closed
		p.mu.Unlock()
		switch {
		case n > 0:
			return n, nil
		case closed:
			return 0, transport.ErrPathClosed
		}
		select {
		case <-news:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return 0, nil
}

// wake wakes the waiting reapers. The caller holds p.mu.
func (p *path) wake() {
	if p.news != nil {
		close(p.news)
		p.news = nil
	}
}

// Close implements transport.Path.
func (p *path) Close(context.Context) error {
	p.mu.Lock()
	p.closed = true
	for o, timer := range p.waiting {
		timer.Stop()
		delete(p.waiting, o)
		p.finish(o, 0, lost("the path was closed"))
	}
	p.wake()
	p.mu.Unlock()
	p.from.mu.Lock()
	delete(p.from.paths, p)
	p.from.mu.Unlock()
	return nil
}
