package quic

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/pathkit"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

// path implements transport.Path: a queue of operations and a pool of connections that take from
// it. mu guards everything below it; nothing blocks while it is held.
type path struct {
	n      *node
	peer   wire.Endpoint
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup // connections, and the chunks in flight on them
	// progress counts the bytes that quic-go sent of payloads, or received.
	progress atomic.Uint64

	mu sync.Mutex
	pathkit.Base[*wire.Key, op, *op]
	queue   opQueue
	moving  int64 // bytes of chunks in flight on all connections
	conns   []*clientConn
	opening int // connections that are connecting
	retry   transportkit.Redial
}

func newPath(n *node, peer wire.Endpoint) *path {
	p := &path{n: n, peer: peer}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.Init(&p.mu, "transport/quic: path to "+peer.Addrs[0], pathkit.Limits{
		Ops: n.cfg.MaxInflightOps, Bytes: n.cfg.MaxInflightBytes, Timeout: n.cfg.OpTimeout,
	}, p.expire)
	p.Meter(p.progress.Load)
	p.retry.Init(p.Name(), n.cfg.DialTimeout, "see whether its machine runs and the network lets UDP through to it")
	return p
}

// Import implements transport.Path. Importing a key twice gives the same RemoteID.
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
	return p.AddKey(blob, k.Region, k.Length, &k)
}

// Submit implements transport.Path.
func (p *path) Submit(ops []transport.Op) (int, error) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.kick()
	for i := range ops {
		in := &ops[i]
		key, err := p.Check(in)
		if err != nil {
			return i, err
		}
		if !p.Room(in) {
			return i, nil
		}
		if len(in.Local) == 0 {
			p.n.stats.opsOK.Add(1)
			p.Complete(in.ID, nil, false)
			continue
		}
		o := p.Accept(in, now)
		o.key = key
		switch {
		case o.Late(now):
			p.abort(o, p.ErrDeadline(p.retry.Last))
		case p.retry.Down != nil && now.Before(p.retry.NotBefore):
			p.abort(o, p.retry.Down)
		default:
			p.queue.push(o)
		}
	}
	return len(ops), nil
}

// expire fails the operations whose deadline has passed, or that are stalled. p.mu is held.
func (p *path) expire(due iter.Seq[*op]) {
	for o := range due {
		p.abort(o, p.ErrOverdue(o, p.retry.Last))
	}
}

// Extras implements transport.Extended.
func (p *path) Extras() transport.Extras { return transport.Extras{Deliver: p.DeliverTo} }

// Close implements transport.Path.
func (p *path) Close(ctx context.Context) error {
	p.mu.Lock()
	if p.Shut() {
		for o := range p.Active() {
			p.abort(o, p.ErrClosed())
		}
		p.cancel()
	}
	p.mu.Unlock()
	p.n.mu.Lock()
	delete(p.n.paths, p)
	p.n.mu.Unlock()
	return p.Drain(ctx, &p.work, "connections are ending")
}
