package tcp

import (
	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/pathkit"
)

// op is an accepted operation. All fields are guarded by path.mu.
type op struct {
	pathkit.Record
	key *frame.Key

	cut           int      // bytes of local that were made into parts so far
	chunks        []*chunk // parts in flight
	err           error    // the first failure; no parts are cut after it
	indeterminate bool     // the peer may still store bytes of this Write
	// patient: it failed, and waits for the outcome of its other parts, so that they are not
	// indeterminate as well.
	patient bool
	queued  bool
	next    *op
	prev    *op
}

// partState tells which goroutine uses the memory of a part.
type chunkState uint8

const (
	chunkWaiting   chunkState = iota // none: the request is sent, the answer has not arrived
	chunkSending                     // the connection's writer: it sends the payload of a Write
	chunkReceiving                   // the connection's reader: it stores the payload of a Read
)

// part is one request on one connection: a slice of an op. All fields are guarded by path.mu,
// except that the goroutine that state names may use buf.
type chunk struct {
	op    *op // nil once detached: the answer is awaited only to be thrown away
	conn  *connection
	id    uint64
	buf   []byte
	write bool
	size  int
	state chunkState
	index int // place in op.parts
	// answered and answer hold an answer that arrived while the part was partSending.
	answered bool
	answer   error
	// cancelled asks the reader to stop storing.
	cancelled bool
}

// opQueue is the operations with bytes that were not made into parts yet.
type opQueue struct{ head, tail *op }

func (q *opQueue) push(o *op) {
	o.queued, o.prev, o.next = true, q.tail, nil
	if q.tail != nil {
		q.tail.next = o
	} else {
		q.head = o
	}
	q.tail = o
}

// remove takes o out if it is queued.
func (q *opQueue) remove(o *op) {
	if !o.queued {
		return
	}
	if o.prev != nil {
		o.prev.next = o.next
	} else {
		q.head = o.next
	}
	if o.next != nil {
		o.next.prev = o.prev
	} else {
		q.tail = o.prev
	}
	o.queued, o.prev, o.next = false, nil, nil
}

// newPart makes the next slice of o, at most limit bytes, and moves o to the end of the
// queue so that operations share the connections.
func (p *path) newChunk(o *op, limit int) *chunk {
	var ch *chunk
	if n := len(p.freeChunks); n > 0 {
		ch, p.freeChunks = p.freeChunks[n-1], p.freeChunks[:n-1]
	} else {
		ch = new(chunk)
	}
	size := min(limit, len(o.Local)-o.cut)
	*ch = chunk{op: o, buf: o.Local[o.cut : o.cut+size], size: size, write: o.Kind == transport.Write, index: len(o.chunks)}
	if ch.write {
		ch.state = chunkSending
	}
	o.chunks = append(o.chunks, ch)
	o.cut += size
	p.queue.remove(o)
	if o.cut < len(o.Local) {
		p.queue.push(o)
	}
	return ch
}

// detach parts a part from its operation, which no longer waits for it.
func (ch *chunk) detach() {
	o := ch.op
	last := len(o.chunks) - 1
	o.chunks[ch.index] = o.chunks[last]
	o.chunks[ch.index].index = ch.index
	o.chunks[last] = nil
	o.chunks = o.chunks[:last]
	ch.op, ch.buf = nil, nil
}

// settle ends a part whose memory no goroutine uses any more. doubt says that the peer
// may still store it.
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

// refuse fails an operation that the peer refused, or that it had not begun when it stopped.
// The parts of a Write that are out are awaited: most likely the peer refuses them too, and
// then nothing is indeterminate.
func (p *path) refuse(o *op, err error) {
	o.err, o.patient = err, true
	p.queue.remove(o)
	for i := len(o.chunks) - 1; i >= 0; i-- {
		if ch := o.chunks[i]; ch.state == chunkWaiting && !ch.write {
			ch.detach()
		}
	}
	p.finish(o)
}

// abort fails an operation. Parts that no goroutine uses end at once; those being moved
// end when the connection is done with them, or, with force, as soon as it can be stopped.
func (p *path) abort(o *op, err error, force bool) {
	if o.err == nil {
		o.err = err
	}
	o.patient = false
	p.queue.remove(o)
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
	stats := &p.n.stats
	switch {
	case o.err == nil && o.Kind == transport.Read:
		stats.opsOK.Add(1)
		stats.bytesRead.Add(uint64(len(o.Local)))
	case o.err == nil:
		stats.opsOK.Add(1)
		stats.bytesWritten.Add(uint64(len(o.Local)))
	case o.indeterminate:
		stats.opsQuarantined.Add(1)
	default:
		stats.opsFailed.Add(1)
	}
	parts := o.chunks[:0]
	p.Finish(o, o.err, o.indeterminate)
	o.chunks = parts // For the next operation that gets this memory.
}
