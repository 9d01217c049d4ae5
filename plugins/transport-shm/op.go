package shm

import (
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/pathkit"
)

// op is an accepted operation. path.mu guards it, but for what belongs to the pool while it
// is queued.
type op struct {
	pathkit.Record
	path   *path
	remote *remote

	left    int   // bytes that are not settled yet
	err     error // the first failure; nothing is copied after it
	waiting bool  // in remote.waiting

	// The pool's, under its lock.
	cut    int  // bytes of local that were given to workers
	step   int  // how many at a time
	queued bool // in the pool's queue
	next   *op  // in the queue of the pool, or of remote.waiting
	prev   *op
}

// opQueue is a list of operations; each is in one at most.
type opQueue struct{ head, tail *op }

func (q *opQueue) push(o *op) {
	o.prev, o.next = q.tail, nil
	if q.tail != nil {
		q.tail.next = o
	} else {
		q.head = o
	}
	q.tail = o
}

func (q *opQueue) remove(o *op) {
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
	o.prev, o.next = nil, nil
}

// abort fails an operation. It completes at once, or when the copies in flight ended.
func (p *path) abort(o *op, err error) {
	if o.err != nil {
		return
	}
	o.err = err
	if o.waiting {
		o.remote.waiting.remove(o)
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
	p.count(o.Kind, len(o.Local), o.err)
	p.Finish(o, o.err, false)
}

// count counts an operation that ended.
func (p *path) count(kind transport.OpKind, size int, err error) {
	stats := &p.n.stats
	switch {
	case err != nil:
		stats.opsFailed.Add(1)
	case kind == transport.Read:
		stats.opsOK.Add(1)
		stats.bytesRead.Add(uint64(size))
	default:
		stats.opsOK.Add(1)
		stats.bytesWritten.Add(uint64(size))
	}
}
