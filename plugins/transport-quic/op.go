package quic

import (
	"context"

	quicgo "github.com/quic-go/quic-go"

	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/pathkit"
)

// op is an accepted operation. All fields are guarded by path.mu.
type op struct {
	pathkit.Record
	key    *remoteKey
	cut    int     // bytes of Local that were made into pieces so far
	pieces []*part // under way
	err    error   // the first failure; no pieces are cut after it
	doubt  bool    // the peer may still store bytes of this Write
	// patient: it failed, and what becomes of its other pieces is awaited, so that they are not
	// in doubt as well.
	patient bool
	queued  bool
	next    *op
	prev    *op
}

// part is one request: a slice of an op, moved by a goroutine of its own on a stream of
// its own. All fields are guarded by path.mu, except that buf, request and loss are the goroutine's.
type part struct {
	op      *op
	index   int // place in op.pieces
	buf     []byte
	write   bool
	request request
	loss    uint16 // that the answer told
	// stopped asks the goroutine to let go of buf; stream, once there is one, is given up then.
	stopped bool
	stream  *quicgo.Stream
	cancel  context.CancelFunc // while the goroutine waits for a stream
}

// opQueue is the operations with bytes that were not made into pieces yet.
type opQueue struct {
	head, tail *op
	bytes      int64
}

func (q *opQueue) push(o *op) {
	o.queued, o.prev, o.next = true, q.tail, nil
	q.bytes += int64(len(o.Local) - o.cut)
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
	q.bytes -= int64(len(o.Local) - o.cut)
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

// cutPart makes the next piece of o, and moves o to the end of the queue so that operations
// share the lanes. p.mu is held.
func (p *path) cutPart(o *op) *part {
	p.queue.remove(o)
	size := min(p.n.cfg.SliceBytes, len(o.Local)-o.cut)
	pt := &part{op: o, index: len(o.pieces), buf: o.Local[o.cut : o.cut+size], write: o.Kind == transport.Write}
	pt.request = request{
		Type: frameRead, Length: uint32(size), Incarnation: o.key.Incarnation, Region: o.key.Region, Token: o.key.Token, Offset: o.Offset + uint64(o.cut),
	}
	if pt.write {
		pt.request.Type = frameWrite
	}
	o.pieces = append(o.pieces, pt)
	o.cut += size
	if o.cut < len(o.Local) {
		p.queue.push(o)
	}
	return pt
}

// settle ends a piece whose goroutine is done with it. doubt says that the peer may still
// store it. p.mu is held.
func (p *path) settle(pt *part, err error, doubt bool) {
	o := pt.op
	last := len(o.pieces) - 1
	o.pieces[pt.index] = o.pieces[last]
	o.pieces[pt.index].index = pt.index
	o.pieces[last] = nil
	o.pieces = o.pieces[:last]
	o.doubt = o.doubt || doubt
	switch {
	case err == nil:
		p.end(o)
	case o.doubt:
		p.abort(o, err)
	default:
		p.refuse(o, err)
	}
}

// refuse fails an operation of which the peer carries out nothing more, or that it cannot be asked.
// The pieces of a Write that were sent are awaited, until its deadline: most likely the peer refuses
// them too, and then nothing is in doubt. p.mu is held.
func (p *path) refuse(o *op, err error) {
	if o.Kind == transport.Read {
		p.abort(o, err)
		return
	}
	if o.err == nil {
		o.err, o.patient = err, true
		p.queue.remove(o)
		for _, pt := range o.pieces {
			if pt.stream == nil {
				pt.stop() // It need not be sent any more.
			}
		}
	}
	p.end(o)
}

// abort fails an operation. It ends when the goroutines of its pieces have let go, which
// they are asked to do now. p.mu is held.
func (p *path) abort(o *op, err error) {
	if o.err == nil || o.patient {
		if o.err == nil {
			o.err = err
		}
		o.patient = false
		p.queue.remove(o)
		for _, pt := range o.pieces {
			pt.stop()
		}
	}
	p.end(o)
}

// stop has the calls of the goroutine return. path.mu is held.
func (pt *part) stop() {
	pt.stopped = true
	if pt.cancel != nil {
		pt.cancel()
	}
	if pt.stream != nil {
		pt.stream.CancelRead(streamCode(reasonSlow))
		pt.stream.CancelWrite(streamCode(reasonSlow))
	}
}

// end completes an operation that has nothing left to do. p.mu is held.
func (p *path) end(o *op) {
	if len(o.pieces) > 0 || (o.err == nil && o.cut < len(o.Local)) {
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
	case o.doubt:
		stats.opsQuarantined.Add(1)
	default:
		stats.opsFailed.Add(1)
	}
	room := o.pieces[:0]
	p.Finish(o, o.err, o.doubt)
	o.pieces = room
}
