package quic

import (
	"context"

	quicgo "github.com/quic-go/quic-go"

	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/pathkit"
)

// op is an accepted operation. All fields are guarded by path.mu.
type op struct {
	pathkit.Record
	key           *wire.Key
	cut           int      // bytes of Local that were made into chunks so far
	chunks        []*chunk // in flight
	err           error    // the first failure; no chunks are cut after it
	indeterminate bool     // the peer may still store bytes of this Write
	// patient: it failed, and what becomes of its other chunks is awaited, so that they are not
	// indeterminate as well.
	patient bool
	link    pathkit.Link[op]
}

// part is one request: a slice of an op, moved by a goroutine of its own on a stream of its own.
// All fields are guarded by path.mu, except that buf, request and loss are the goroutine's.
type chunk struct {
	op      *op
	index   int // place in op.chunks
	buf     []byte
	write   bool
	request wire.Request
	loss    uint16 // that the answer told
	// stopped asks the goroutine to let go of buf; stream, once there is one, is given up then.
	stopped bool
	stream  *quicgo.Stream
	cancel  context.CancelFunc // while the goroutine waits for a stream
}

// enqueue queues an operation with bytes that were not made into chunks yet. p.mu is held.
func (p *path) enqueue(o *op) {
	p.queued += int64(len(o.Local) - o.cut)
	p.queue.Push(o, &o.link)
}

// dequeue takes an operation out if it is queued. p.mu is held.
func (p *path) dequeue(o *op) {
	if o.link.Queued() {
		p.queued -= int64(len(o.Local) - o.cut)
		p.queue.Remove(&o.link)
	}
}

// cutChunk makes the next chunk of o, and moves o to the end of the queue so that operations share
// the connections. p.mu is held.
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

// settle ends a chunk whose goroutine is done with it. doubt says that the peer may still store it.
// p.mu is held.
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
// refuses them too, and then nothing is indeterminate. p.mu is held.
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
// asked to do now. p.mu is held.
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

// stop has the calls of the goroutine return. path.mu is held.
func (ch *chunk) stop() {
	ch.stopped = true
	if ch.cancel != nil {
		ch.cancel()
	}
	if ch.stream != nil {
		ch.stream.CancelRead(streamCode(wire.ReasonSlow))
		ch.stream.CancelWrite(streamCode(wire.ReasonSlow))
	}
}

// end completes an operation that has nothing left to do. p.mu is held.
func (p *path) end(o *op) {
	if len(o.chunks) > 0 || (o.err == nil && o.cut < len(o.Local)) {
		return
	}
	p.n.stats.Ended(o.Kind, len(o.Local), o.err, o.indeterminate)
	empty := o.chunks[:0]
	p.Finish(o, o.err, o.indeterminate)
	o.chunks = empty
}
