// Package callctx is a context for one call that has two ends: its caller's, and one of its
// own. Other than a derived context it is used again and so costs a call nothing, as long as
// those who wait know it and ask for its Ends. For everybody else it is a context like any
// other, made the first time that somebody asks for Done.
package callctx

import (
	"context"
	"sync"
	"time"
)

// Call is the context of one call at a time: Begin, what the call does, Finish. The zero value
// is ready for Begin. Whoever keeps it for longer than the call must have asked for Done before.
type Call struct {
	parent   context.Context
	detached bool      // the parent's end is not the call's
	limit    time.Time // of a detached call
	own      chan struct{}

	mu      sync.Mutex
	cause   error           // of the own end
	derived context.Context // nil until somebody asks for Done
	cancel  context.CancelCauseFunc
	stop    context.CancelFunc // of the limit
}

var _ context.Context = (*Call)(nil)

// Begin starts a call that ends with parent.
func (c *Call) Begin(parent context.Context) { c.begin(parent, false, time.Time{}) }

// BeginDetached starts a call with the values of parent that goes on when parent ends, until
// limit.
func (c *Call) BeginDetached(parent context.Context, limit time.Time) { c.begin(parent, true, limit) }

func (c *Call) begin(parent context.Context, detached bool, limit time.Time) {
	if c.own == nil {
		c.own = make(chan struct{}, 1)
	}
	c.parent, c.detached, c.limit, c.cause = parent, detached, limit, nil
}

// End ends the call for a reason of its own. Only between Begin and Finish.
func (c *Call) End(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return
	}
	c.cause = cause
	c.own <- struct{}{}
	if c.derived != nil {
		c.cancel(cause)
	}
}

// Cause is why the call was ended by End, nil while it was not.
func (c *Call) Cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// Finish ends the use of the context for a call. It reports whether it may be used for another:
// not where somebody has its Done and may look at it later.
func (c *Call) Finish() (again bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.derived != nil {
		c.cancel(nil)
		c.stop()
		return false
	}
	if c.cause != nil {
		select {
		case <-c.own:
		default: // The waiter has it.
		}
	}
	c.parent = nil
	return true
}

// Ends are what one waiter looks at instead of Done: the end of the caller, nil for none, and
// the call's own, which comes as one value. The limit is to be taken from Deadline.
func (c *Call) Ends() (caller, own <-chan struct{}) {
	if !c.detached {
		caller = c.parent.Done()
	}
	return caller, c.own
}

// Deadline implements context.Context.
func (c *Call) Deadline() (time.Time, bool) {
	if c.detached {
		return c.limit, true
	}
	return c.parent.Deadline()
}

// Done implements context.Context.
func (c *Call) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.derived == nil {
		c.derive()
	}
	return c.derived.Done()
}

// derive makes the context that others wait for. mu is held.
func (c *Call) derive() {
	from, stop := c.parent, func() {}
	if c.detached {
		from, stop = context.WithDeadline(context.WithoutCancel(from), c.limit)
	}
	c.derived, c.cancel = context.WithCancelCause(from)
	c.stop = stop
	if c.cause != nil {
		c.cancel(c.cause)
	}
}

// Err implements context.Context.
func (c *Call) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.derived != nil:
		return c.derived.Err()
	case c.cause != nil:
		return context.Canceled
	case !c.detached:
		return c.parent.Err()
	case !time.Now().Before(c.limit):
		return context.DeadlineExceeded
	}
	return nil
}

// Value implements context.Context. Contexts are told apart by it, too: the parent is not
// this one, so that what derives from the call must not find it there.
func (c *Call) Value(key any) any {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.derived == nil && c.detached {
		c.derive()
	}
	if c.derived != nil {
		return c.derived.Value(key)
	}
	return c.parent.Value(key)
}
