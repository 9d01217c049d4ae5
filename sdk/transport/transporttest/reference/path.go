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

// path implements transport.Path: one goroutine carries the operations out, in order.
type path struct {
	from        *node
	name        string
	incarnation uint64
	closing     chan struct{} // closed by Close
	ended       chan struct{} // closed when the goroutine has returned and all completions are in done

	mu       sync.Mutex
	imported []key // by RemoteID - 1
	queue    []transport.Op
	done     []finished
	bytes    int           // of accepted operations that were not reaped
	closed   bool          // closing is closed
	work     chan struct{} // has a token when queue has grown
	news     chan struct{} // closed and replaced when done grows
}

// finished is a completion and the bytes that it returns to the window.
type finished struct {
	transport.Completion
	bytes int
}

func newPath(n *node, name string, incarnation uint64) *path {
	p := &path{
		from: n, name: name, incarnation: incarnation,
		work: make(chan struct{}, 1), news: make(chan struct{}), closing: make(chan struct{}), ended: make(chan struct{}),
	}
	go p.run()
	return p
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
	for i, o := range ops {
		if p.closed {
			return i, transport.ErrPathClosed
		}
		if err := p.check(o); err != nil {
			return i, err
		}
		if p.bytes+len(p.queue)+len(p.done) >= p.from.cfg.Window { // Empty operations count too.
			return i, nil
		}
		p.bytes += len(o.Local)
		if o.Deadline.IsZero() {
			o.Deadline = time.Now().Add(ownLimit)
		}
		p.queue = append(p.queue, o)
		select {
		case p.work <- struct{}{}:
		default:
		}
	}
	return len(ops), nil
}

// check refuses operations that are known to be wrong at Submit.
func (p *path) check(o transport.Op) error {
	bad := func(format string, args ...any) error {
		return errs.WithClass(errs.ClassPermanent, "submit", errs.New(errs.InvalidParams, "", format, args...))
	}
	switch {
	case o.Kind != transport.Read && o.Kind != transport.Write:
		return bad("operation %d is neither a read nor a write (%d)", o.ID, o.Kind)
	case o.Remote == 0 || uint64(o.Remote) > uint64(len(p.imported)):
		return bad("operation %d names memory of the peer that was not imported (%d)", o.ID, o.Remote)
	case len(o.Local) > 0 && !p.from.local(o.Local):
		return bad("the buffer of operation %d is not registered", o.ID)
	}
	if size := p.imported[o.Remote-1].size; o.Offset > size || uint64(len(o.Local)) > size-o.Offset {
		return bad("operation %d: %d bytes at %d reach past the end of a region of %d bytes", o.ID, len(o.Local), o.Offset, size)
	}
	return nil
}

// Extras implements transport.Extended.
func (p *path) Extras() transport.Extras { return transport.Extras{Checksums: true} }

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
		news, closed := p.news, p.closed
		p.mu.Unlock()
		if n > 0 {
			return n, nil
		}
		ended := p.ended
		if closed {
			select {
			case <-ended: // Nothing is added any more; check done again.
				p.mu.Lock()
				left := len(p.done)
				p.mu.Unlock()
				if left == 0 {
					return 0, transport.ErrPathClosed
				}
				continue
			default:
			}
		}
		select {
		case <-news:
		case <-ended:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return 0, nil
}

// Close implements transport.Path.
func (p *path) Close(context.Context) error {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		close(p.closing)
	}
	p.mu.Unlock()
	<-p.ended // At most one copy is in progress.
	p.from.mu.Lock()
	delete(p.from.paths, p)
	p.from.mu.Unlock()
	return nil
}
