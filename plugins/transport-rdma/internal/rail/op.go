package rail

import (
	"iter"
	"sync"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/blob"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/memory"
	"github.com/mooncake-go/mooncake/sdk/transport/pathkit"
)

// opStage is where an accepted operation stands.
type opStage uint8

const (
	opQueued   opStage = iota // in its queue, with bytes that were not posted yet
	opPosted                  // all bytes were posted
	opUnproven                // failed; waits for the proof that nothing is stored any more
	opEnded                   // only the completion is left
)

// Path gets back operations that have ended.
type Path interface {
	sync.Locker
	// Finish completes o. The path is locked.
	Finish(o *Op)
}

// Op is an accepted operation. The fields above Err do not change before it ends; Rail.mu guards
// the others once the operation is in a queue.
type Op struct {
	pathkit.Record
	Addr   uint64 // of Local
	Region *memory.Region
	Key    *blob.Key
	Path   Path
	Queue  *Queue // nil for an operation that ends without a rail

	Err error // the first failure; nothing is posted after it
	// Indeterminate says that the peer may still store bytes of this Write.
	Indeterminate bool
	stage         opStage
	cut           uint64 // bytes posted so far
	inFlight      int    // work requests
	conn          *Conn  // that carries them
	redo          bool   // was flushed because of the fault of another operation
	tries         uint8  // how often it was begun again

	next, prev *Op // in Queue, or next alone in Ended
}

// Fail ends an operation that is in no queue. The caller completes it.
func (o *Op) Fail(err error) { o.Err, o.stage = err, opEnded }

func (o *Op) size() uint64 { return uint64(len(o.Local)) }

// maxTries is how often an operation is begun again because of the fault of another one.
const maxTries = 3

// Ended collects operations that ended, to complete them once Rail.mu is free.
type Ended struct{ head, tail *Op }

func (l *Ended) add(o *Op) {
	o.stage = opEnded
	o.next, o.prev = nil, nil
	if l.tail != nil {
		l.tail.next = o
	} else {
		l.head = o
	}
	l.tail = o
}

// All takes out the operations.
func (l *Ended) All() iter.Seq[*Op] {
	return func(yield func(*Op) bool) {
		for o := l.head; o != nil; {
			next := o.next // The operation may be used again once it was completed.
			if !yield(o) {
				return
			}
			o = next
		}
		*l = Ended{}
	}
}

// finish completes the operations. No lock is held.
func (l *Ended) finish() {
	var locked Path
	for o := range l.All() {
		p := o.Path
		if p != locked {
			if locked != nil {
				locked.Unlock()
			}
			p.Lock()
			locked = p
		}
		p.Finish(o)
	}
	if locked != nil {
		locked.Unlock()
	}
}

// Queue holds the operations of one path that wait for one rail. Rails take from their queues in
// turns, so that a path with much to do does not hold up the others.
type Queue struct {
	Rail       *Rail
	Index      int  // of the peer's device in keys
	head, tail *Op  // guarded by Rail.mu, as is the rest
	waiting    bool // in Rail.waiting
	next       *Queue
}

func (l *Queue) push(o *Op) {
	o.stage, o.next, o.prev = opQueued, nil, l.tail
	if l.tail != nil {
		l.tail.next = o
	} else {
		l.head = o
	}
	l.tail = o
	l.Rail.wait(l)
}

// unshift puts o before all others.
func (l *Queue) unshift(o *Op) {
	o.stage, o.next, o.prev = opQueued, l.head, nil
	if l.head != nil {
		l.head.prev = o
	} else {
		l.tail = o
	}
	l.head = o
	l.Rail.wait(l)
}

// remove takes o out if it is in.
func (l *Queue) remove(o *Op) {
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

// rotation is the queues of a rail that are not empty, in their turn.
type rotation struct{ head, tail *Queue }

func (q *rotation) push(l *Queue) {
	l.next = nil
	if q.tail != nil {
		q.tail.next = l
	} else {
		q.head = l
	}
	q.tail = l
}

func (q *rotation) pop() *Queue {
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

// wait puts a queue that is not empty in the rotation.
func (r *Rail) wait(l *Queue) {
	if !l.waiting {
		l.waiting = true
		r.waiting.push(l)
	}
}
