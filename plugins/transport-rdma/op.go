package rdma

import (
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/blob"
	"github.com/mooncake-go/mooncake/sdk/transport/pathkit"
)

// opStage is where an accepted operation stands.
type opStage uint8

const (
	opQueued opStage = iota // in its lane, with bytes that were not posted yet
	opPosted                // all bytes were posted
	opLimbo                 // failed; waits for the proof that nothing is stored any more
	opEnded                 // only the completion is left
)

// op is an accepted operation. What stands above stage does not change before it ends; the rest is
// guarded by link.mu once the operation has a link.
type op struct {
	pathkit.Record
	addr   uint64 // of Local
	region *region
	key    *blob.Key
	path   *path
	lane   *lane // nil for an operation that ends without a link

	stage opStage
	cut   uint64 // bytes posted so far
	open  int    // work requests under way
	conn  *conn  // that carries them
	err   error  // the first failure; nothing is posted after it
	redo  bool   // was flushed for no fault of its own
	tries uint8  // how often it was begun again
	doubt bool   // the peer may still store bytes of this Write

	next, prev *op // in lane, or next alone in an opList
}

func (o *op) size() uint64 { return uint64(len(o.Local)) }

// maxTries is how often an operation is begun again because of the fault of another one.
const maxTries = 3

// opList collects operations that ended, to complete them once link.mu is free.
type opList struct{ head, tail *op }

func (l *opList) add(o *op) {
	o.stage = opEnded
	o.next, o.prev = nil, nil
	if l.tail != nil {
		l.tail.next = o
	} else {
		l.head = o
	}
	l.tail = o
}

// finish completes the operations. No lock is held.
func (l *opList) finish() {
	for o := l.head; o != nil; {
		p := o.path
		p.mu.Lock()
		for o != nil && o.path == p {
			next := o.next
			p.finish(o)
			o = next
		}
		p.mu.Unlock()
	}
	*l = opList{}
}

// lane is what one path has waiting for one link. Links take from their lanes in turns, so
// that a path with much to do does not hold up the others. All fields are guarded by
// link.mu.
type lane struct {
	link       *link
	index      int // of the peer's device in keys; constant
	head, tail *op
	waiting    bool // in link.lanes
	next       *lane
}

func (l *lane) push(o *op) {
	o.stage, o.next, o.prev = opQueued, nil, l.tail
	if l.tail != nil {
		l.tail.next = o
	} else {
		l.head = o
	}
	l.tail = o
	l.link.wait(l)
}

// unshift puts o before all others.
func (l *lane) unshift(o *op) {
	o.stage, o.next, o.prev = opQueued, l.head, nil
	if l.head != nil {
		l.head.prev = o
	} else {
		l.tail = o
	}
	l.head = o
	l.link.wait(l)
}

// remove takes o out if it is in.
func (l *lane) remove(o *op) {
	if o.stage != opQueued {
		return
	}
	if o.prev != nil {
		o.prev.next = o.next
	} else {
		l.head = o.next
	}
	if o.next != nil {
		o.next.prev = o.prev
	} else {
		l.tail = o.prev
	}
	o.stage, o.next, o.prev = opPosted, nil, nil
}

// laneQueue is the lanes of a link that have something waiting, in their turn.
type laneQueue struct{ head, tail *lane }

func (q *laneQueue) push(l *lane) {
	l.next = nil
	if q.tail != nil {
		q.tail.next = l
	} else {
		q.head = l
	}
	q.tail = l
}

func (q *laneQueue) pop() *lane {
	l := q.head
	if l == nil {
		return nil
	}
	q.head = l.next
	if q.head == nil {
		q.tail = nil
	}
	l.next, l.waiting = nil, false
	return l
}

// wait puts a lane in the queue of those that have something waiting.
func (k *link) wait(l *lane) {
	if !l.waiting {
		l.waiting = true
		k.lanes.push(l)
	}
}
