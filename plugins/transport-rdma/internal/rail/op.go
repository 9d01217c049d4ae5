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

	next, prev *Op // in a list
}

// Fail ends an operation that is in no queue, unless it has failed before. The caller completes it.
func (o *Op) Fail(err error) { o.fail(err); o.stage = opEnded }

// fail notes the first failure.
func (o *Op) fail(err error) {
	if o.Err == nil {
		o.Err = err
	}
}

func (o *Op) size() uint64 { return uint64(len(o.Local)) }

// maxTries is how often an operation is begun again because of the fault of another one.
const maxTries = 3

// list holds operations, each of which is in one list at most.
type list struct{ head, tail *Op }

// insert puts o before next, or at the end for nil.
func (l *list) insert(o, next *Op) {
	prev := l.tail
	if next != nil {
		prev = next.prev
	}
	o.prev, o.next = prev, next
	l.link(prev, o)
	l.link(o, next)
}

func (l *list) remove(o *Op) {
	l.link(o.prev, o.next)
	o.prev, o.next = nil, nil
}

// link makes b follow a; nil is the end of the list.
func (l *list) link(a, b *Op) {
	if a != nil {
		a.next = b
	} else {
		l.head = b
	}
	if b != nil {
		b.prev = a
	} else {
		l.tail = a
	}
}

// Ended collects operations that ended, to complete them once Rail.mu is free.
type Ended struct{ list }

func (l *Ended) add(o *Op) {
	o.stage = opEnded
	l.insert(o, nil)
}

// All takes out the operations. They may be used again once they were completed.
func (l *Ended) All() iter.Seq[*Op] {
	return func(yield func(*Op) bool) {
		for o := l.head; o != nil; o = l.head {
			l.remove(o)
			if !yield(o) {
				return
			}
		}
	}
}

// finish completes the operations. No lock is held.
func (l *Ended) finish() {
	var locked Path
	for o := range l.All() {
		if p := o.Path; p != locked {
			if locked != nil {
				locked.Unlock()
			}
			p.Lock()
			locked = p
		}
		locked.Finish(o)
	}
	if locked != nil {
		locked.Unlock()
	}
}
