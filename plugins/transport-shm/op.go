package shm

import (
	"time"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// op is an accepted operation. path.mu guards it, but for what belongs to the pool while it
// is queued.
type op struct {
	path     *path
	id       uint64
	kind     transport.OpKind
	local    []byte
	remote   *remote
	offset   uint64
	deadline time.Time

	left    int   // bytes that are not settled yet
	err     error // the first failure; nothing is copied after it
	index   int   // place in path.active
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

func (p *path) newOp() *op {
	if n := len(p.freeOps); n > 0 {
		o := p.freeOps[n-1]
		p.freeOps = p.freeOps[:n-1]
		return o
	}
	return new(op)
}

// abort fails an operation. It completes at once, or when the copies under way ended.
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

// abortAll fails what is under way: on the remote, or all with nil.
func (p *path) abortAll(r *remote, err error) {
	for i := len(p.active) - 1; i >= 0; i-- {
		if i < len(p.active) && (r == nil || p.active[i].remote == r) {
			p.abort(p.active[i], err)
		}
	}
}

// finish completes an operation that has nothing left to do.
func (p *path) finish(o *op) {
	if o.left > 0 {
		return
	}
	last := len(p.active) - 1
	p.active[o.index] = p.active[last]
	p.active[o.index].index = o.index
	p.active[last] = nil
	p.active = p.active[:last]
	p.bytes -= int64(len(o.local))
	p.completeOp(o.id, o.kind, len(o.local), o.err)
	*o = op{}
	p.freeOps = append(p.freeOps, o)
}

// completeOp counts and queues a completion.
func (p *path) completeOp(id uint64, kind transport.OpKind, size int, err error) {
	stats := &p.n.stats
	done := transport.Completion{ID: id, Status: transport.OK, Err: err}
	switch {
	case err != nil:
		done.Status = transport.Failed
		stats.opsFailed.Add(1)
	case kind == transport.Read:
		stats.opsOK.Add(1)
		stats.bytesRead.Add(uint64(size))
	default:
		stats.opsOK.Add(1)
		stats.bytesWritten.Add(uint64(size))
	}
	p.complete(done)
}
