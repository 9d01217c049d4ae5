package shm

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-shm/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/pathkit"
)

// op is an accepted operation. path.mu guards it, but for what belongs to the pool while it is
// queued.
type op struct {
	pathkit.Record
	path   *path
	remote *remote

	left    int              // bytes that are not settled yet
	err     error            // the first failure; nothing is copied after it
	waiting bool             // in remote.waiting
	link    pathkit.Link[op] // in the queue of the pool, or of remote.waiting

	// The pool's, under its lock.
	cut    int  // bytes of local that were given to workers
	step   int  // how many at a time
	queued bool // in the pool's queue
}

// abort fails an operation. It completes at once, or when the copies in flight ended.
func (p *path) abort(o *op, err error) {
	if o.err != nil {
		return
	}
	o.err = err
	if o.waiting {
		o.remote.waiting.Remove(&o.link)
		o.waiting = false
		o.left = 0
	} else {
		o.left -= p.n.work.withdraw(o)
	}
	p.finish(o)
}

// abortAll fails the operations in flight: those on the remote, or all where it is nil.
func (p *path) abortAll(r *remote, err error) {
	for o := range p.Active() {
		if r == nil || o.remote == r {
			p.abort(o, err)
		}
	}
}

// finish completes an operation that has nothing left to do.
func (p *path) finish(o *op) {
	if o.left > 0 {
		return
	}
	p.n.stats.Ended(o.Kind, len(o.Local), o.err, false)
	p.Finish(o, o.err, false)
}

// path implements transport.Path. mu guards everything below it; nothing blocks while it is held. A
// worker pool's lock may be taken under it.
type path struct {
	n           *node
	peer        wire.Endpoint
	clientConns sync.WaitGroup // the goroutines of connections

	mu sync.Mutex
	pathkit.Base[*remote, op, *op]
	conn  *clientConn // nil for none
	retry backoff
}

func newPath(n *node, peer wire.Endpoint) *path {
	p := &path{n: n, peer: peer}
	p.Init(&p.mu, "transport/shm: path to "+peer.Socket, pathkit.Limits{
		Ops: n.cfg.MaxInflightOps, Bytes: n.cfg.MaxInflightBytes, Timeout: time.Duration(n.cfg.OpTimeout),
	}, p.expire)
	return p
}

// Import implements transport.Path. Importing a key twice gives the same RemoteID. The region is
// mapped with the first operation on it.
func (p *path) Import(_ context.Context, blob transport.Key) (transport.RemoteID, error) {
	k, err := wire.DecodeKey(blob)
	if err != nil {
		return 0, p.ErrKey(err)
	}
	if k.Incarnation != p.peer.Incarnation {
		return 0, p.ErrIncarnation(k.Incarnation, p.peer.Incarnation)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	id, err := p.AddKey(blob, k.Region, k.Length, &remote{key: k})
	if r, ok := p.Remote(id); ok {
		r.handle = uint64(id)
	}
	return id, err
}

// Submit implements transport.Path.
func (p *path) Submit(ops []transport.Op) (int, error) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range ops {
		in := &ops[i]
		r, err := p.Check(in)
		if err != nil {
			return i, err
		}
		if !p.Room(in) {
			return i, nil
		}
		p.accept(in, r, now)
	}
	return len(ops), nil
}

func (p *path) accept(in *transport.Op, r *remote, now time.Time) {
	if len(in.Local) == 0 {
		p.n.stats.Ended(in.Kind, 0, nil, false)
		p.Complete(in.ID, nil, false)
		return
	}
	err := p.refused(r, in.Kind, now)
	if err == nil && !in.Deadline.IsZero() && !in.Deadline.After(now) {
		err = p.ErrDeadline(nil)
	}
	if err != nil {
		p.n.stats.Ended(in.Kind, len(in.Local), err, false)
		p.Complete(in.ID, err, false)
		return
	}
	o := p.Accept(in, now)
	o.path, o.remote, o.left = p, r, len(in.Local)
	if r.state == remoteReady {
		p.n.work.push(o)
		return
	}
	o.waiting = true
	r.waiting.Push(o, &o.link)
	p.want(r, now)
}

// expire fails the operations whose deadline has passed.
func (p *path) expire(due iter.Seq[*op]) {
	for o := range due {
		p.abort(o, p.ErrOverdue(o, nil))
	}
}

// Extras implements transport.Extended.
func (p *path) Extras() transport.Extras {
	return transport.Extras{Deliver: p.DeliverTo, Checksums: true}
}

// Close implements transport.Path. When it returns without an error, nothing of the peer is mapped
// any more.
func (p *path) Close(ctx context.Context) error {
	p.mu.Lock()
	if p.Shut() {
		cause := p.ErrClosed()
		p.abortAll(nil, cause)
		if p.conn != nil {
			p.conn.lose(cause)
		}
	}
	p.mu.Unlock()
	p.n.mu.Lock()
	delete(p.n.paths, p)
	p.n.mu.Unlock()
	return p.Drain(ctx, &p.clientConns, "copies are still ending")
}
