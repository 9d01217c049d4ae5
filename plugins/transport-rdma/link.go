package rdma

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/blob"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// linkKey names a link: a device of this side, and one of a peer. peer is the blob of the
// peer's endpoint with the number of the device, or the "server@device" of upstream.
type linkKey struct {
	local int
	peer  string
}

// link is a device of this side and one of a peer, for all paths to that peer.
type link struct {
	n     *node
	key   linkKey
	dev   *device
	name  string // for errors
	where string // the peer's first address
	// remote is the peer's device, incarnation the peer's, server its name if it is one of
	// upstream. They are constant, whichever path or request came first.
	remote      blob.Device
	incarnation uint64
	server      string
	refs        int // of paths and connections; guarded by node.mu

	load   atomic.Int64 // bytes that wait or are under way
	paused atomic.Int64 // until this time in Unix nanoseconds nothing is begun
	stats  linkCounters

	addrs atomic.Pointer[[]string] // where connections are set up; nil for unknown

	// make is held while a conn is made, so that both sides of a handshake with a node of
	// upstream find the same one. It is taken before mu.
	make sync.Mutex

	mu         sync.Mutex
	lanes      laneQueue
	conn       *conn // that work may be posted to, or that waits for the second round
	connecting *conn // of the attempt under way, once it has queue pairs
	dialling   bool
	again      bool  // see later
	failures   int   // in a row
	last       error // the latest
}

// up reports whether operations may be given to the link.
func (k *link) up(now time.Time) bool {
	return k.remote.Usable && k.dev.up.Load() && now.UnixNano() >= k.paused.Load()
}

// down says why it is not up.
func (k *link) down() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.downLocked()
}

func (k *link) downLocked() error {
	switch {
	case !k.dev.up.Load():
		return &errs.Error{Code: errs.TransferFail, Class: errs.ClassTransientPath, Op: k.name, Err: k.dev.unusable()}
	case !k.remote.Usable:
		return &errs.Error{
			Code: errs.TransferFail, Class: errs.ClassTransientPath, Op: k.name,
			Err: fmt.Errorf("the peer cannot use its device %s", k.remote.Name),
		}
	}
	if k.last != nil {
		return k.last
	}
	return errs.WithClass(errs.ClassTransientPath, k.name, errs.New(errs.TransferFail, "", "the rail is down"))
}

// enqueue takes an operation over. The caller calls kick afterwards, without path.mu.
func (k *link) enqueue(l *lane, o *op) {
	k.mu.Lock()
	defer k.mu.Unlock()
	o.lane = l
	k.load.Add(int64(o.size()))
	l.push(o)
}

// kick posts what can be posted, or sees to a connection.
func (k *link) kick() {
	var done opList
	k.mu.Lock()
	k.pump(&done)
	k.mu.Unlock()
	done.finish()
}

// postAgain is when a device that did not take everything is asked again. Results do that
// too, but what is under way may be of no operation.
const postAgain = time.Millisecond

// later sees to another kick. k.mu is held.
func (k *link) later() {
	if k.again {
		return
	}
	k.again = true
	time.AfterFunc(postAgain, func() {
		k.mu.Lock()
		k.again = false
		k.mu.Unlock()
		k.kick()
	})
}

// pump moves waiting operations along. k.mu is held.
func (k *link) pump(done *opList) {
	if k.lanes.head == nil {
		return
	}
	switch {
	case k.conn != nil:
		if k.conn.ready {
			k.conn.post(done)
		}
	case k.dialling:
	case !k.up(time.Now()):
		k.failWaiting(k.downLocked(), done)
	default:
		k.dial(done)
	}
}

// failWaiting ends every operation that waits. k.mu is held.
func (k *link) failWaiting(err error, done *opList) {
	for l := k.lanes.pop(); l != nil; l = k.lanes.pop() {
		for o := l.head; o != nil; o = l.head {
			if o.err == nil {
				o.err = err
			}
			l.remove(o)
			k.settle(o, done)
		}
	}
}

// failed notes a failure of the link and makes it pause. The first loss of a connection
// that worked does not pause: the peer may have restarted. k.mu is held.
func (k *link) failed(err error, lost bool) {
	k.failures++
	k.last = err
	k.stats.failures.Add(1)
	if lost && k.failures == 1 {
		return
	}
	const first = 50 * time.Millisecond
	pause := k.n.cfg.RailPause
	if shift := k.failures - 1; shift < 16 {
		pause = min(pause, first<<shift)
	}
	k.pause(pause)
	k.n.touch()
}

// pause keeps operations away for a while. Who reads the rails is told when it is over, as
// nothing else happens then.
func (k *link) pause(d time.Duration) {
	k.paused.Store(time.Now().Add(d).UnixNano())
	time.AfterFunc(d, k.n.touch)
}

// works notes that bytes arrived. k.mu is held.
func (k *link) works() {
	if k.failures > 0 {
		k.failures, k.last = 0, nil
		k.paused.Store(0)
	}
}

// abort ends an operation: at once where nothing of it is under way, else when the device
// is done with it. With force the connection is given up for that.
func (k *link) abort(o *op, err error, force bool, done *opList) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if o.stage == opEnded {
		return
	}
	whole := o.stage == opPosted && o.open > 0 && !o.redo
	if o.err == nil && (force || !whole) {
		o.err = err
	}
	o.lane.remove(o)
	switch {
	case o.stage == opLimbo: // It ends with its conn.
	case o.open == 0:
		k.settle(o, done)
	case force:
		o.conn.kill(errs.WithClass(errs.ClassTransientPath, k.name, fmt.Errorf("given up for an operation: %w", err)), true)
	}
}

// settle moves an operation on that has nothing under way. k.mu is held.
func (k *link) settle(o *op, done *opList) {
	switch {
	case o.open > 0:
	case o.err == nil && !o.redo && o.cut < o.size():
		if o.stage == opPosted { // It was set aside until its conn had ended.
			o.conn = nil
			o.lane.unshift(o)
		}
	case o.doubt:
		o.lane.remove(o)
		o.stage = opLimbo
		o.conn.limbo = append(o.conn.limbo, o)
	case o.redo && o.err == nil && o.tries < maxTries:
		o.lane.remove(o)
		o.redo, o.cut, o.conn = false, 0, nil
		o.tries++
		o.lane.unshift(o)
	default:
		o.lane.remove(o)
		if o.redo && o.err == nil {
			o.err = o.conn.cause
		}
		k.load.Add(-int64(o.size()))
		done.add(o)
	}
}
