package rail

import (
	"fmt"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Enqueue takes an operation over. The caller calls Kick afterwards, when it has unlocked the path.
func (l *Queue) Enqueue(o *Op) {
	r := l.Rail
	r.mu.Lock()
	defer r.mu.Unlock()
	o.Queue = l
	r.load.Add(int64(o.size()))
	l.insert(o, false)
}

// Kick posts operations that wait, or starts to connect.
func (r *Rail) Kick() {
	r.mu.Lock()
	r.pump()
	r.unlock()
}

// postAgain is the wait before work requests that the device did not accept are posted again.
// Results do that too, but there may be none in flight.
const postAgain = time.Millisecond

// retryLater calls Kick after postAgain.
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

// pump moves waiting operations along.
func (r *Rail) pump() {
	if len(r.waiting) == 0 {
		return
	}
	switch {
	case r.conn != nil:
		if r.conn.ready {
			r.conn.post()
		}
	case r.dialling:
	case !r.Up(time.Now()):
		r.failWaiting(r.down())
	default:
		r.dial()
	}
}

// Abort ends an operation: at once where nothing of it is in flight, else when the device
// is done with it. With force the connection is given up for that.
func (r *Rail) Abort(o *Op, err error, force bool) Ended {
	r.mu.Lock()
	if o.stage != opEnded {
		r.abort(o, err, force)
	}
	return r.release()
}

func (r *Rail) abort(o *Op, err error, force bool) {
	whole := o.stage == opPosted && o.inFlight > 0 && !o.redo
	if o.Err == nil && (force || !whole) {
		o.Err = err
	}
	o.Queue.remove(o)
	switch {
	case o.stage == opUnproven: // It ends with its connection.
	case o.inFlight == 0:
		r.settle(o)
	case force:
		o.conn.kill(errs.WithClass(errs.ClassTransientPath, r.Name, fmt.Errorf("given up for an operation: %w", err)), true)
	}
}

// take handles results of one queue pair. Several goroutines may have fetched them; they
// count in the order of posting all the same, so that a failure is seen before the requests that
// were flushed because of it.
func (c *Conn) take(p *pair, results []verbs.Result) {
	r := c.rail
	r.mu.Lock()
	for _, result := range results {
		if result.ID-p.tail >= p.head-p.tail || p.at(result.ID).fetched {
			r.env.Log.Error("a result that fits no work request", "rail", r.Name, "got", result.ID, "expected", p.tail)
			c.kill(errs.WithClass(errs.ClassLocalDevice, r.Name, fmt.Errorf("%s reported work that was not given to it", r.Dev.Name)), false)
			continue
		}
		s := p.at(result.ID)
		s.result, s.fetched = result, true
	}
	for p.tail != p.head && p.at(p.tail).fetched {
		c.result(p)
	}
	if c.dying {
		c.checkDrained()
	}
	r.pump()
	r.unlock()
}

// end kills a connection, unless it is still being made and notices by itself. Where the
// transport is stopping, operations that wait fail as well.
func (c *Conn) end(cause error, stopping bool) {
	r := c.rail
	r.mu.Lock()
	if c.established.Load() || r.conn == c {
		c.kill(cause, false)
	}
	if stopping {
		r.failWaiting(cause)
	} else {
		r.pump()
	}
	r.unlock()
}
