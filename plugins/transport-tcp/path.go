package tcp

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/upstream"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/pathkit"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

// path implements transport.Path: a queue of operations and a pool of connections that take from
// it. mu guards everything below it; no goroutine blocks while it holds mu.
type path struct {
	n         *node
	peer      frame.Endpoint
	maxConns  int
	ctx       context.Context
	cancel    context.CancelFunc
	connsDone sync.WaitGroup
	heard     atomic.Uint64 // bytes of the peer that readers took

	mu sync.Mutex
	pathkit.Base[*frame.Key, op, *op]
	queue      pathkit.Queue[op] // of operations with bytes that were not made into chunks yet
	conns      []*connection
	dialling   int  // connections that are being connected
	far        bool // the peer, by the connection that came up last
	retry      transportkit.Redial
	closes     bool     // the peer closes a connection after each request
	again      []*chunk // of such a peer, to be sent before what is in the queue
	freeChunks []*chunk
	carried    uint64 // bytes that connections moved which have ended
	seen       uint64 // what moved returned last
	polled     bool   // the waiting goroutine polls for answers
}

func newPath(n *node, peer frame.Endpoint) *path {
	ctx, cancel := context.WithCancel(context.Background())
	p := &path{n: n, peer: peer, ctx: ctx, cancel: cancel, maxConns: n.cfg.ConnectionsPerPeer}
	if n.trust.on() {
		p.maxConns = n.cfg.sealing(runtime.GOMAXPROCS(0))
	}
	if peer.Upstream != 0 {
		p.maxConns = min(p.maxConns, upstream.MaxConnections)
	}
	p.Init(&p.mu, "transport/tcp: path to "+peer.Addrs[0], pathkit.Limits{
		Ops: n.cfg.MaxInflightOps, Bytes: n.cfg.MaxInflightBytes, Timeout: n.cfg.OpTimeout,
	}, p.expire)
	p.retry.Init(p.Name(), n.cfg.DialTimeout, "see whether its machine runs and the network leads to it")
	p.Meter(p.moved)
	p.Hearing(p.heard.Load)
	return p
}

// moved returns how many bytes the path has carried. It updates the patience with the peer if bytes
// have moved. The caller holds path.mu.
func (p *path) moved() uint64 {
	sum, patience := p.carried, 1
	for _, c := range p.conns {
		sum += c.moved()
		if p.peer.Upstream == 0 {
			patience = max(patience, c.gauge.Patience())
		}
	}
	if sum != p.seen {
		p.seen = sum
		p.Patience(patience)
	}
	return sum
}

// Import implements transport.Path. Importing a key twice gives the same RemoteID.
func (p *path) Import(_ context.Context, blob transport.Key) (transport.RemoteID, error) {
	k, err := frame.DecodeKey(blob)
	if err != nil {
		return 0, p.ErrKey(err)
	}
	if k.Incarnation != p.peer.Incarnation || k.Upstream != (p.peer.Upstream != 0) {
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
	defer p.direct()
	for i := range ops {
		in := &ops[i]
		key, err := p.Check(in)
		if err != nil {
			return i, err
		}
		if !p.Room(in) {
			return i, nil
		}
		p.accept(in, key, now)
	}
	return len(ops), nil
}

func (p *path) accept(in *transport.Op, key *frame.Key, now time.Time) {
	if len(in.Local) == 0 {
		p.n.stats.Ended(transport.Read, 0, nil, false)
		p.Complete(in.ID, nil, false)
		return
	}
	o := p.Accept(in, now)
	o.key = key
	p.queue.Push(o, &o.link)
	switch {
	case o.Late(now):
		p.abort(o, p.errOverdue(o), false)
	case p.retry.Down != nil && now.Before(p.retry.NotBefore):
		p.abort(o, p.retry.Down, false)
	}
}

// expire fails the operations whose deadline has passed, or that are stalled.
func (p *path) expire(due iter.Seq[*op]) {
	for o := range due {
		p.abort(o, p.errOverdue(o), true)
	}
	p.giveUpHasty(time.Now())
	p.kick()
}

// Extras implements transport.Extended.
func (p *path) Extras() transport.Extras {
	return transport.Extras{Deliver: p.DeliverTo, Poll: p.poll}
}

// Close implements transport.Path.
func (p *path) Close(ctx context.Context) error {
	p.mu.Lock()
	if p.Shut() {
		cause := p.ErrClosed()
		for o := range p.Active() {
			p.abort(o, cause, true)
		}
		for _, c := range p.conns {
			c.die(cause)
		}
		p.cancel()
	}
	p.mu.Unlock()
	p.n.mu.Lock()
	delete(p.n.paths, p)
	p.n.mu.Unlock()
	return p.Drain(ctx, &p.connsDone, "connections are still ending")
}

func (p *path) errOverdue(o *op) error {
	if p.retry.Last == nil {
		return p.ErrOverdue(o, nil)
	}
	return p.ErrOverdue(o, fmt.Errorf("the last attempt to connect: %w", p.retry.Last))
}

// newPart makes the next slice of o, at most limit bytes, and moves o to the end of the queue so
// that operations share the connections.
func (p *path) newChunk(o *op, limit int) *chunk {
	var ch *chunk
	if n := len(p.freeChunks); n > 0 {
		ch, p.freeChunks = p.freeChunks[n-1], p.freeChunks[:n-1]
	} else {
		ch = new(chunk)
	}
	size := min(limit, len(o.Local)-o.cut)
	*ch = chunk{op: o, buf: o.Local[o.cut : o.cut+size], size: size, at: o.Offset + uint64(o.cut), write: o.Kind == transport.Write, index: len(o.chunks)}
	if p.closes {
		ch.stage = stageAlone
	}
	o.chunks = append(o.chunks, ch)
	o.cut += size
	p.queue.Remove(&o.link)
	if o.cut < len(o.Local) {
		p.queue.Push(o, &o.link)
	}
	return ch
}

// settle ends a chunk whose memory no goroutine uses any more. indeterminate says that the peer may
// still store it.
func (p *path) settle(ch *chunk, err error, indeterminate bool) {
	o := ch.op
	if o == nil {
		return
	}
	ch.detach()
	if err != nil || o.err != nil {
		o.indeterminate = o.indeterminate || indeterminate
	}
	switch {
	case err != nil && o.err == nil && !o.indeterminate && p.peer.Upstream == 0:
		p.refuse(o, err)
	case err != nil && o.err == nil, o.patient && o.indeterminate:
		p.abort(o, err, false)
	default:
		p.finish(o)
	}
}

// refuse fails an operation that the peer refused, or that it had not begun when it stopped. It
// waits for the chunks of a Write that are in flight: most likely the peer refuses them too, and
// then nothing is indeterminate.
func (p *path) refuse(o *op, err error) {
	o.err, o.patient = err, true
	p.queue.Remove(&o.link)
	for i := len(o.chunks) - 1; i >= 0; i-- {
		if ch := o.chunks[i]; ch.state == chunkWaiting && !ch.write {
			ch.detach()
		}
	}
	p.finish(o)
}

// abort fails an operation. Chunks that no goroutine uses end at once. Chunks in motion end when
// the connection is done with them or, with force, as soon as it can be stopped.
func (p *path) abort(o *op, err error, force bool) {
	if o.err == nil {
		o.err = err
	}
	o.patient = false
	p.queue.Remove(&o.link)
	for i := len(o.chunks) - 1; i >= 0; i-- {
		ch := o.chunks[i]
		switch {
		case ch.state == chunkWaiting:
			o.indeterminate = o.indeterminate || ch.write && !ch.conn.renounced // Its connection may be dead, and not yet reclaimed.
			ch.detach()
			ch.conn.abandon(err)
		case force:
			ch.conn.stop(ch, err)
		}
	}
	p.finish(o)
}

// finish completes an operation that has nothing left to do.
func (p *path) finish(o *op) {
	if len(o.chunks) > 0 || (o.err == nil && o.cut < len(o.Local)) {
		return
	}
	p.n.stats.Ended(o.Kind, len(o.Local), o.err, o.indeterminate)
	chunks := o.chunks[:0]
	p.Finish(o, o.err, o.indeterminate)
	o.chunks = chunks // For the next operation that gets this memory.
}
