// Package rail carries operations out. A rail is a device of this side and one of a peer, for all
// paths to that peer. It keeps the operations that wait, and has at most one connection at a time:
// queue pairs that are connected to the peer's.
//
// Rail.mu guards a rail, its connections and its operations. A function whose comment says nothing
// else is called with it held; unlock then completes what has ended.
package rail

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/blob"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/device"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Rail is a device of this side and one of a peer, for all paths to that peer.
type Rail struct {
	table *Table
	env   *device.Env
	key   Key
	pool  *Pool
	Dev   *device.Device
	Name  string // for errors
	where string // the peer's first address
	// Remote is the peer's device, incarnation the peer's, server its name if it is one of
	// upstream. They are constant, whichever path or request came first.
	Remote      blob.Device
	incarnation uint64
	server      string
	users       int // paths and connections; guarded by Table.mu

	load     atomic.Int64 // bytes that wait or are in flight
	paused   atomic.Int64 // until this time in Unix nanoseconds the rail is not up
	counters counters

	// make is held while a connection is made, so that both sides of a handshake with a node of
	// upstream find the same one. It is taken before mu.
	make sync.Mutex

	mu         sync.Mutex
	addrs      []string // where connections are set up; nil for unknown
	waiting    []*Queue // those that are not empty, in their turn
	ended      Ended    // operations for unlock
	conn       *Conn    // that work may be posted to, or that waits for the second round
	connecting *Conn    // of the attempt in progress, once it has queue pairs
	dialling   bool
	retrying   bool  // see retryLater
	failures   int   // in a row
	last       error // the latest
}

// Queue holds the operations of one path that wait for one rail. Rails take from their queues in
// turns, so that a path with much to do does not hold up the others. Rail.mu guards what is not
// exported.
type Queue struct {
	Rail    *Rail
	Index   int // of the peer's device in keys
	ops     list
	waiting bool // in Rail.waiting
}

// insert puts o first, or last.
func (l *Queue) insert(o *Op, first bool) {
	o.stage = opQueued
	if first {
		l.ops.insert(o, l.ops.head)
	} else {
		l.ops.insert(o, nil)
	}
	l.Rail.wait(l)
}

// remove takes o out if it is in.
func (l *Queue) remove(o *Op) {
	if o.stage == opQueued {
		l.ops.remove(o)
		o.stage = opPosted
	}
}

// wait puts a queue that is not empty in the rotation.
func (r *Rail) wait(l *Queue) {
	if !l.waiting {
		l.waiting = true
		r.waiting = append(r.waiting, l)
	}
}

// next takes the queue whose turn it is out of the rotation.
func (r *Rail) next() *Queue {
	l := r.waiting[0]
	r.waiting = slices.Delete(r.waiting, 0, 1)
	l.waiting = false
	return l
}

// unlock unlocks r.mu and completes the operations that have ended. No path is locked.
func (r *Rail) unlock() {
	done := r.release()
	done.finish()
}

// release unlocks r.mu and returns the operations that have ended.
func (r *Rail) release() Ended {
	done := r.ended
	r.ended = Ended{}
	r.mu.Unlock()
	return done
}

// SetAddresses says where connections are set up. r.mu is not held.
func (r *Rail) SetAddresses(addrs []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addrs = addrs
}

// Load returns how many bytes wait or are in flight.
func (r *Rail) Load() int64 { return r.load.Load() }

// Latest returns the latest failure of the rail, nil while it works. r.mu is not held.
func (r *Rail) Latest() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// Up reports whether operations may be given to the rail.
func (r *Rail) Up(now time.Time) bool {
	return r.Remote.Usable && r.Dev.Up.Load() && now.UnixNano() >= r.paused.Load()
}

// Down says why the rail is not up. r.mu is not held.
func (r *Rail) Down() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.down()
}

func (r *Rail) down() error {
	switch {
	case !r.Dev.Up.Load():
		return r.failure(errs.ClassTransientPath, "%w", r.Dev.Unusable())
	case !r.Remote.Usable:
		return r.failure(errs.ClassTransientPath, "the peer cannot use its device %s", r.Remote.Name)
	case r.last != nil:
		return r.last
	}
	return r.failure(errs.ClassTransientPath, "the rail is down")
}

// failure is an error that a transfer over the rail failed. It may be called without r.mu.
func (r *Rail) failure(class errs.Class, format string, args ...any) *errs.Error {
	return &errs.Error{Code: errs.TransferFail, Class: class, Op: r.Name, Err: fmt.Errorf(format, args...)}
}

// ErrStopping is the end of operations when the transport stops.
func ErrStopping(op string) error {
	return &errs.Error{Code: errs.TransferFail, Class: errs.ClassTransientPath, Op: op, Err: errors.New("the transport is stopping")}
}

// failed notes a failure of the rail and makes it pause. The first loss of a connection
// that worked does not pause: the peer may have restarted.
func (r *Rail) failed(err error, lost bool) {
	r.failures++
	r.last = err
	r.counters.failures.Add(1)
	if lost && r.failures == 1 {
		return
	}
	const first = 50 * time.Millisecond
	pause := time.Duration(r.env.Config.RailPause)
	if shift := r.failures - 1; shift < 16 {
		pause = min(pause, first<<shift)
	}
	r.pause(pause)
	r.env.Changed()
}

// pause keeps operations away for a while. Readers of the rails are told when it is over, as
// nothing else happens then.
func (r *Rail) pause(d time.Duration) {
	r.paused.Store(time.Now().Add(d).UnixNano())
	time.AfterFunc(d, r.env.Changed)
}

// works notes that bytes arrived.
func (r *Rail) works() {
	if r.failures > 0 {
		r.failures, r.last = 0, nil
		r.paused.Store(0)
	}
}

// failWaiting ends every operation that waits.
func (r *Rail) failWaiting(err error) {
	for len(r.waiting) > 0 {
		l := r.next()
		for o := l.ops.head; o != nil; o = l.ops.head {
			o.fail(err)
			l.remove(o)
			r.settle(o)
		}
	}
}

// settle moves an operation on that has nothing in flight.
func (r *Rail) settle(o *Op) {
	if o.inFlight > 0 {
		return
	}
	if o.Err == nil && !o.redo && o.cut < o.size() {
		if o.stage == opPosted { // It was set aside until its connection had ended.
			o.conn = nil
			o.Queue.insert(o, true)
		}
		return
	}
	o.Queue.remove(o)
	switch {
	case o.Indeterminate:
		o.stage = opUnproven
		o.conn.unproven = append(o.conn.unproven, o)
	case o.redo && o.Err == nil && o.tries < maxTries:
		o.redo, o.cut, o.conn = false, 0, nil
		o.tries++
		o.Queue.insert(o, true)
	default:
		if o.redo {
			o.fail(o.conn.cause)
		}
		r.end(o)
	}
}

// end completes an operation that is in no queue.
func (r *Rail) end(o *Op) {
	r.load.Add(-int64(o.size()))
	r.ended.add(o)
}
