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
	// heard counts the bytes of answers.
	heard atomic.Uint64

	mu sync.Mutex
	pathkit.Base[*wire.Key, op, *op]
	queue   pathkit.Queue[op] // of operations with bytes that were not made into chunks yet
	queued  int64             // those bytes
	moving  int64             // bytes of chunks in flight on all connections
	conns   []*connection
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
	p.Hearing(p.heard.Load)
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
			p.n.stats.Ended(in.Kind, 0, nil, false)
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
			p.enqueue(o)
		}
	}
	return len(ops), nil
}

// expire fails the operations whose deadline has passed, or that are stalled. The caller holds
// p.mu.
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

// enqueue queues an operation with bytes that were not made into chunks yet. The caller holds p.mu.
func (p *path) enqueue(o *op) {
	p.queued += int64(len(o.Local) - o.cut)
	p.queue.Push(o, &o.link)
}

// dequeue takes an operation out if it is queued. The caller holds p.mu.
func (p *path) dequeue(o *op) {
	if o.link.Queued() {
		p.queued -= int64(len(o.Local) - o.cut)
		p.queue.Remove(&o.link)
	}
}

// cutChunk makes the next chunk of o, and moves o to the end of the queue so that operations share
// the connections. The caller holds p.mu.
func (p *path) cutChunk(o *op) *chunk {
	p.dequeue(o)
	size := min(p.n.cfg.SliceBytes, len(o.Local)-o.cut)
	ch := &chunk{op: o, index: len(o.chunks), buf: o.Local[o.cut : o.cut+size], write: o.Kind == transport.Write}
	ch.request = wire.Request{
		Type: wire.FrameRead, Length: uint32(size), Incarnation: o.key.Incarnation, Region: o.key.Region, Token: o.key.Token, Offset: o.Offset + uint64(o.cut),
	}
	if ch.write {
		ch.request.Type = wire.FrameWrite
	}
	o.chunks = append(o.chunks, ch)
	o.cut += size
	if o.cut < len(o.Local) {
		p.enqueue(o)
	}
	return ch
}

// settle ends a chunk whose goroutine is done with it. indeterminate says that the peer may still store it.
// The caller holds p.mu.
func (p *path) settle(ch *chunk, err error, indeterminate bool) {
	o := ch.op
	last := len(o.chunks) - 1
	o.chunks[ch.index] = o.chunks[last]
	o.chunks[ch.index].index = ch.index
	o.chunks[last] = nil
	o.chunks = o.chunks[:last]
	o.indeterminate = o.indeterminate || indeterminate
	switch {
	case err == nil:
		p.end(o)
	case o.indeterminate:
		p.abort(o, err)
	default:
		p.refuse(o, err)
	}
}

// refuse fails an operation of which the peer carries out nothing more, or that it cannot be asked.
// The chunks of a Write that were sent are awaited, until its deadline: most likely the peer
// refuses them too, and then nothing is indeterminate. The caller holds p.mu.
func (p *path) refuse(o *op, err error) {
	if o.Kind == transport.Read {
		p.abort(o, err)
		return
	}
	if o.err == nil {
		o.err, o.patient = err, true
		p.dequeue(o)
		for _, ch := range o.chunks {
			if ch.stream == nil {
				ch.stop() // It need not be sent any more.
			}
		}
	}
	p.end(o)
}

// abort fails an operation. It ends when the goroutines of its chunks have let go, which they are
// asked to do now. The caller holds p.mu.
func (p *path) abort(o *op, err error) {
	if o.err == nil || o.patient {
		if o.err == nil {
			o.err = err
		}
		o.patient = false
		p.dequeue(o)
		for _, ch := range o.chunks {
			ch.stop()
		}
	}
	p.end(o)
}

// end completes an operation that has nothing left to do. The caller holds p.mu.
func (p *path) end(o *op) {
	if len(o.chunks) > 0 || (o.err == nil && o.cut < len(o.Local)) {
		return
	}
	p.n.stats.Ended(o.Kind, len(o.Local), o.err, o.indeterminate)
	empty := o.chunks[:0]
	p.Finish(o, o.err, o.indeterminate)
	o.chunks = empty
}
