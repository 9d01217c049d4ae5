package wire

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/x/shm"
)

// ClientOptions name and bound a client.
type ClientOptions struct {
	// ID is named in errors.
	ID plugin.ID
	// Timeout bounds every call of the kind; 0 is DefaultTimeout.
	Timeout time.Duration
	// Data is the socket for the descriptors of a transport, nil for other kinds. It stays
	// the caller's, who closes it once the process is gone.
	Data *shm.Conn

	// The rest is for transports.

	// Kill is told, at most once and in a goroutine of its own, that the process broke the
	// contract or is silent. Who gets it ends the process, collects it, and calls
	// Transport.Ended; until then operations under way stay so. Nil does nothing.
	Kill func(reason string)
	// Overdue is how long after its deadline an operation may stay without a completion before
	// Kill; 0 is DefaultOverdue.
	Overdue time.Duration
	// Foreign says how memory without a descriptor is reached.
	Foreign Foreign
	// Staging is the size in bytes of the area through which such memory goes; 0 is
	// DefaultStaging.
	Staging int
}

// Foreign is a choice of how a transport in a process of its own reaches memory of the host
// that has no descriptor.
type Foreign uint8

// The choices.
const (
	// ForeignAuto: the plugin copies where the kernel permits it, else the host does.
	ForeignAuto Foreign = iota
	// ForeignVM: the plugin copies, with process_vm_readv and process_vm_writev, or nobody.
	ForeignVM
	// ForeignStaging: the host copies.
	ForeignStaging
	// ForeignRefuse: nobody does; only memory with a descriptor is taken.
	ForeignRefuse
)

// caller issues the calls of one client: at most maxInFlight at a time, none without a
// bound.
type caller struct {
	id      string
	timeout time.Duration
	slots   chan struct{}
}

func newCaller(o ClientOptions) *caller {
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	return &caller{id: o.ID.String(), timeout: o.Timeout, slots: make(chan struct{}, maxInFlight)}
}

type rpc[Q, R any] func(context.Context, *Q, ...grpc.CallOption) (*R, error)

// call does one call, bounded by the timeout and by ctx.
func call[Q, R any](ctx context.Context, c *caller, op string, f rpc[Q, R], q *Q) (*R, error) {
	op = c.id + ": " + op
	bounded, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	if err := c.acquire(bounded); err != nil {
		return nil, lost(ctx, op, err)
	}
	defer c.release()
	r, err := f(bounded, q)
	switch {
	case err == nil:
		return r, nil
	case (bounded.Err() != nil || overdue(err)) && ctx.Err() == nil:
		return nil, errs.New(errs.RPCTimeout, op, "the plugin did not answer within %s", c.timeout)
	}
	return nil, lost(ctx, op, err)
}

// overdue reports that the call's own time limit ended it. The plugin's side counts the same
// limit and may be first to end the call; what a plugin itself answers carries a detail.
func overdue(err error) bool {
	st := status.Convert(err)
	return st.Code() == codes.DeadlineExceeded && len(st.Details()) == 0
}

// callGiving does a call whose answer gives something out. When ctx ends first the caller
// gets its error at once, and undo gets the answer once it is there.
func callGiving[Q, R any](ctx context.Context, c *caller, op string, f rpc[Q, R], q *Q, undo func(context.Context, *R)) (*R, error) {
	if err := ctx.Err(); err != nil {
		return nil, lost(ctx, c.id+": "+op, err)
	}
	type answer struct {
		r   *R
		err error
	}
	answers := make(chan answer)
	go func() {
		inner := context.WithoutCancel(ctx)
		r, err := call(inner, c, op, f, q)
		select {
		case answers <- answer{r, err}:
		case <-ctx.Done():
			if err == nil {
				undo(inner, r)
			}
		}
	}()
	select {
	case a := <-answers:
		return a.r, a.err
	case <-ctx.Done():
		return nil, lost(ctx, c.id+": "+op, ctx.Err())
	}
}

func (c *caller) acquire(ctx context.Context) error {
	select {
	case c.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *caller) release() { <-c.slots }

// lost gives the error of a call its code. A caller that stopped waiting finds its own
// context's error inside; a plugin that did not answer in time is RPCTimeout, class
// transient-peer.
func lost(ctx context.Context, op string, err error) error {
	if own := ctx.Err(); own != nil {
		code := errs.RPCFail
		if errors.Is(own, context.DeadlineExceeded) {
			code = errs.RPCTimeout
		}
		return &errs.Error{Code: code, Class: errs.ClassUnknown, Op: op, Err: own}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return errs.New(errs.RPCTimeout, op, "too many calls wait for the plugin already")
	}
	return FromStatus(op, err)
}
