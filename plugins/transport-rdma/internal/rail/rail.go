package rail

import (
	"fmt"
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
	env   *Env
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

	addrs atomic.Pointer[[]string] // where connections are set up; nil for unknown

	// make is held while a connection is made, so that both sides of a handshake with a node of
	// upstream find the same one. It is taken before mu.
	make sync.Mutex

	mu         sync.Mutex
	waiting    rotation
	conn       *Conn // that work may be posted to, or that waits for the second round
	connecting *Conn // of the attempt in progress, once it has queue pairs
	dialling   bool
	retrying   bool  // see retryLater
	failures   int   // in a row
	last       error // the latest
}

// SetAddresses says where connections are set up.
func (r *Rail) SetAddresses(addrs *[]string) { r.addrs.Store(addrs) }

// Load returns how many bytes wait or are in flight.
func (r *Rail) Load() int64 { return r.load.Load() }

// Latest returns the latest failure of the rail, nil while it works.
func (r *Rail) Latest() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// Up reports whether operations may be given to the rail.
func (r *Rail) Up(now time.Time) bool {
	return r.Remote.Usable && r.Dev.Up.Load() && now.UnixNano() >= r.paused.Load()
}

// Down says why the rail is not up.
func (r *Rail) Down() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.downLocked()
}

func (r *Rail) downLocked() error {
	switch {
	case !r.Dev.Up.Load():
		return &errs.Error{Code: errs.TransferFail, Class: errs.ClassTransientPath, Op: r.Name, Err: r.Dev.Unusable()}
	case !r.Remote.Usable:
		return &errs.Error{
			Code: errs.TransferFail, Class: errs.ClassTransientPath, Op: r.Name,
			Err: fmt.Errorf("the peer cannot use its device %s", r.Remote.Name),
		}
	}
	if r.last != nil {
		return r.last
	}
	return errs.WithClass(errs.ClassTransientPath, r.Name, errs.New(errs.TransferFail, "", "the rail is down"))
}

// Enqueue takes an operation over. The caller calls Kick afterwards, when it has unlocked the path.
func (l *Queue) Enqueue(o *Op) {
	r := l.Rail
	r.mu.Lock()
	defer r.mu.Unlock()
	o.Queue = l
	r.load.Add(int64(o.size()))
	l.push(o)
}

// Kick posts operations that wait, or starts to connect.
func (r *Rail) Kick() {
	var done Ended
	r.mu.Lock()
	r.pump(&done)
	r.mu.Unlock()
	done.finish()
}

// postAgain is the wait before work requests that the device did not accept are posted again.
// Results do that too, but there may be none in flight.
const postAgain = time.Millisecond

// retryLater calls Kick after postAgain. r.mu is held.
func (r *Rail) retryLater() {
	if r.retrying {
		return
	}
	r.retrying = true
	time.AfterFunc(postAgain, func() {
		r.mu.Lock()
		r.retrying = false
		r.mu.Unlock()
		r.Kick()
	})
}

// pump moves waiting operations along. r.mu is held.
func (r *Rail) pump(done *Ended) {
	if r.waiting.head == nil {
		return
	}
	switch {
	case r.conn != nil:
		if r.conn.ready {
			r.conn.post(done)
		}
	case r.dialling:
	case !r.Up(time.Now()):
		r.failWaiting(r.downLocked(), done)
	default:
		r.dial(done)
	}
}

// failWaiting ends every operation that waits. r.mu is held.
func (r *Rail) failWaiting(err error, done *Ended) {
	for l := r.waiting.pop(); l != nil; l = r.waiting.pop() {
		for o := l.head; o != nil; o = l.head {
			if o.Err == nil {
				o.Err = err
			}
			l.remove(o)
			r.settle(o, done)
		}
	}
}

// failed notes a failure of the rail and makes it pause. The first loss of a connection
// that worked does not pause: the peer may have restarted. r.mu is held.
func (r *Rail) failed(err error, lost bool) {
	r.failures++
	r.last = err
	r.counters.failures.Add(1)
	if lost && r.failures == 1 {
		return
	}
	const first = 50 * time.Millisecond
	pause := r.env.Config.RailPause
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

// works notes that bytes arrived. r.mu is held.
func (r *Rail) works() {
	if r.failures > 0 {
		r.failures, r.last = 0, nil
		r.paused.Store(0)
	}
}

// Abort ends an operation: at once where nothing of it is in flight, else when the device
// is done with it. With force the connection is given up for that.
func (r *Rail) Abort(o *Op, err error, force bool, done *Ended) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o.stage == opEnded {
		return
	}
	whole := o.stage == opPosted && o.inFlight > 0 && !o.redo
	if o.Err == nil && (force || !whole) {
		o.Err = err
	}
	o.Queue.remove(o)
	switch {
	case o.stage == opUnproven: // It ends with its connection.
	case o.inFlight == 0:
		r.settle(o, done)
	case force:
		o.conn.kill(errs.WithClass(errs.ClassTransientPath, r.Name, fmt.Errorf("given up for an operation: %w", err)), true)
	}
}

// settle moves an operation on that has nothing in flight. r.mu is held.
func (r *Rail) settle(o *Op, done *Ended) {
	switch {
	case o.inFlight > 0:
	case o.Err == nil && !o.redo && o.cut < o.size():
		if o.stage == opPosted { // It was set aside until its connection had ended.
			o.conn = nil
			o.Queue.unshift(o)
		}
	case o.Indeterminate:
		o.Queue.remove(o)
		o.stage = opUnproven
		o.conn.unproven = append(o.conn.unproven, o)
	case o.redo && o.Err == nil && o.tries < maxTries:
		o.Queue.remove(o)
		o.redo, o.cut, o.conn = false, 0, nil
		o.tries++
		o.Queue.unshift(o)
	default:
		o.Queue.remove(o)
		if o.redo && o.Err == nil {
			o.Err = o.conn.cause
		}
		r.load.Add(-int64(o.size()))
		done.add(o)
	}
}
