package wire

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/x/shm"
)

// ClientOptions name a client and bound its calls.
type ClientOptions struct {
	// ID is named in errors.
	ID plugin.ID
	// Timeout bounds every call of the kind; 0 is DefaultTimeout.
	Timeout time.Duration
	// Data is the socket for descriptors of a kind with Kind.Data, nil for other kinds. The caller owns
	// it, and closes it once the process is gone.
	Data *shm.Conn

	// Kill, if not nil, is called at most once and in a goroutine of its own, when the process has
	// broken the contract or is silent. Its owner ends the process, waits for it, and calls Ended
	// of the client, if it has that. Until then operations in flight do not complete.
	Kill func(reason string)
}

// Caller issues the calls of one client: at most maxInFlight at a time, none without a
// bound. Safe for concurrent use.
type Caller struct {
	// ID is the plugin as errors name it.
	ID string
	// Timeout bounds a call.
	Timeout time.Duration
	// Class, where set, is the class of an error that the plugin did not itself return.
	Class errs.Class
	// Down, where set, refuses a call before it is made.
	Down func(op string) error
	// Garbled, if set, is called for an answer that no server of this package gives: it is too
	// large, or not a message.
	Garbled func(op, text string)

	slots chan struct{}
}

// NewCaller makes one. Its owner sets the optional fields before the first call.
func NewCaller(o ClientOptions) *Caller {
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	return &Caller{ID: o.ID.String(), Timeout: o.Timeout, slots: make(chan struct{}, maxInFlight)}
}

// RPC is a unary method of a gRPC client.
type RPC[Q, R any] func(context.Context, *Q, ...grpc.CallOption) (*R, error)

// Call does one call, bounded by the caller's timeout and by ctx.
func Call[Q, R any](ctx context.Context, c *Caller, op string, f RPC[Q, R], q *Q) (*R, error) {
	return CallWithin(ctx, c, c.Timeout, op, f, q)
}

// CallWithin is Call with a timeout of its own.
func CallWithin[Q, R any](ctx context.Context, c *Caller, timeout time.Duration, op string, f RPC[Q, R], q *Q) (*R, error) {
	op = c.ID + ": " + op
	if c.Down != nil {
		if err := c.Down(op); err != nil {
			return nil, err
		}
	}
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := c.acquire(bounded); err != nil {
		return nil, c.lost(ctx, op, err)
	}
	defer func() { <-c.slots }()
	r, err := f(bounded, q)
	if err == nil {
		return r, nil
	}
	st := status.Convert(err)
	if len(st.Details()) > 0 && ctx.Err() == nil { // The plugin's own error.
		return nil, FromStatus(op, err)
	}
	if c.Garbled != nil && Garbled(err) {
		c.Garbled(op, Clip(st.Message(), MaxItemText))
	}
	// The plugin's side counts the same limit and may be first to end the call.
	if ctx.Err() == nil && (bounded.Err() != nil || st.Code() == codes.DeadlineExceeded) {
		return nil, c.classed(errs.New(errs.RPCTimeout, op, "the plugin did not answer within %s", timeout))
	}
	return nil, c.lost(ctx, op, err)
}

// Garbled reports an answer that no server of this package gives: too large, or no message.
func Garbled(err error) bool {
	st := status.Convert(err)
	return (st.Code() == codes.ResourceExhausted && strings.Contains(st.Message(), "received message")) ||
		(st.Code() == codes.Internal && strings.Contains(st.Message(), "unmarshal"))
}

// CallGiving is CallWithin for a call whose answer gives something out. When ctx ends first
// the caller gets its error at once, and undo gets the answer once it is there.
func CallGiving[Q, R any](ctx context.Context, c *Caller, timeout time.Duration, op string, f RPC[Q, R], q *Q, undo func(context.Context, *R)) (*R, error) {
	if err := ctx.Err(); err != nil {
		return nil, c.lost(ctx, c.ID+": "+op, err)
	}
	type answer struct {
		r   *R
		err error
	}
	answers := make(chan answer)
	go func() {
		inner := context.WithoutCancel(ctx)
		r, err := CallWithin(inner, c, timeout, op, f, q)
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
		return nil, c.lost(ctx, c.ID+": "+op, ctx.Err())
	}
}

func (c *Caller) acquire(ctx context.Context) error {
	select {
	case c.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Caller) classed(err error) error {
	if c.Class == errs.ClassUnknown {
		return err
	}
	return errs.WithClass(c.Class, "", err)
}

func (c *Caller) lost(ctx context.Context, op string, err error) error {
	return c.classed(Lost(ctx, op, err))
}

// Lost gives the error of a call its code. A caller that stopped waiting finds its own
// context's error inside; a plugin that did not answer in time is RPCTimeout, class
// transient-peer.
func Lost(ctx context.Context, op string, err error) error {
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
