// Package callctx provides a context for one call that can end in two ways: with its caller's
// context, or by a call of End. Unlike a derived context it is reused, so that it costs a call
// nothing if the waiting code knows it and uses Ends. For all other code it is an ordinary
// context, which is derived on the first call of Done.
package callctx

import (
	"context"
	"sync"
	"time"
)

// Call is the context of one call at a time, between Begin and Finish. The zero value is ready for
// Begin. Code that keeps the context beyond the call must have called Done before Finish.
type Call struct {
	parent   context.Context
	detached bool      // the parent's end is not the call's
	limit    time.Time // of a detached call
	own      chan struct{}

	mu      sync.Mutex
	cause   error           // the argument of End
	derived context.Context // nil until Done is called
	cancel  context.CancelCauseFunc
	stop    context.CancelFunc // of the limit
}

var _ context.Context = (*Call)(nil)

// Begin starts a call that ends with parent.
func (c *Call) Begin(parent context.Context) { c.begin(parent, false, time.Time{}) }

// BeginDetached starts a call that has the values of parent but does not end with it. The call
// ends at limit.
func (c *Call) BeginDetached(parent context.Context, limit time.Time) { c.begin(parent, true, limit) }

func (c *Call) begin(parent context.Context, detached bool, limit time.Time) {
	if c.own == nil {
		c.own = make(chan struct{}, 1)
	}
	c.parent, c.detached, c.limit, c.cause = parent, detached, limit, nil
}

// End ends the call with a cause. It may be called between Begin and Finish only.
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

// Cause returns the cause that End was called with, nil if it was not called.
func (c *Call) Cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// Finish ends the use of the context for a call. again reports whether the context may be reused:
// it may not after a call of Done, since the channel may still be in use.
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
		default: // The waiter has taken it.
		}
	}
	c.parent = nil
	return true
}

// Ends returns what one waiter selects on instead of Done. caller is closed when the caller's
// context ends, and is nil if it never does. own delivers one value after End. The waiter takes
// the limit from Deadline.
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

// derive makes the ordinary context behind Done. The caller holds mu.
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

// Inherited returns a value of the context that Begin was given. Unlike Value it costs nothing. It may be
// called between Begin and Finish only.
func (c *Call) Inherited(key any) any { return c.parent.Value(key) }

// Value implements context.Context. Package context also uses Value to find the context from
// which another is derived. A detached call is not its parent, so contexts that derive from the
// call must not find the parent there.
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
