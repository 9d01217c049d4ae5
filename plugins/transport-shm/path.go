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

// path implements transport.Path. mu guards everything below it; nothing blocks while it
// is held. A worker pool's lock may be taken under it.
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

// Import implements transport.Path. Importing a key twice gives the same RemoteID. The
// region is mapped with the first operation on it.
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
		p.count(in.Kind, 0, nil)
		p.Complete(in.ID, nil, false)
		return
	}
	err := p.refused(r, in.Kind, now)
	if err == nil && !in.Deadline.IsZero() && !in.Deadline.After(now) {
		err = p.ErrDeadline(nil)
	}
	if err != nil {
		p.count(in.Kind, len(in.Local), err)
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
	r.waiting.push(o)
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

// Close implements transport.Path. When it returns without an error, nothing of the peer is
// mapped any more.
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
