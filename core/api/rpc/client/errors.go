package client

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mooncake-go/mooncake/core/api/lean"
	"github.com/mooncake-go/mooncake/core/api/rpc"
	"github.com/mooncake-go/mooncake/core/api/rpc/convert"
	"github.com/mooncake-go/mooncake/core/internal/foreign"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// outcome is callError, also for a call without an error.
func (c *Client) outcome(op string, err error) error {
	if err != nil {
		err = c.callError(op, err)
	}
	c.place.judge(err)
	return err
}

// callError returns the master's own error where it answered with one, else an error that
// says why there is no answer.
func (c *Client) callError(op string, err error) error {
	st := status.Convert(err)
	if e := convert.FromStatus(st); e != nil {
		return e
	}
	if e := leaderUnknown(err); e != nil {
		return e
	}
	var barred *lean.BarredError
	if errors.As(err, &barred) {
		return barred.Err
	}
	var other *lean.ForeignError
	if errors.As(err, &other) {
		return foreignMaster(op, other)
	}
	at := c.place.at()
	op = "master " + at + ": " + op
	code := convert.FromGRPC(st.Code())
	wrapped := errs.New(code, op, "%s", st.Message())
	if errors.Is(err, lean.ErrNotSent) {
		wrapped.Err = notSent(st.Message())
	}
	switch st.Code() {
	case codes.Canceled:
		return &errs.Error{Code: code, Class: errs.ClassUnknown, Op: op, Err: context.Canceled}
	case codes.DeadlineExceeded:
		return errs.WithHint(&errs.Error{Code: code, Class: errs.ClassTransientPeer, Op: op, Err: context.DeadlineExceeded},
			"the master did not answer in time; look at its load and its log")
	case codes.Unimplemented:
		return errs.WithHint(errs.New(code, op, "the master does not know this call, which this side (version %q) does: %s", c.opts.Version, st.Message()),
			"the master is of an earlier release; upgrade it")
	case codes.ResourceExhausted:
		return errs.WithHint(wrapped, "a message holds at most %d MiB; ask for less at once", rpc.MaxMessageSize>>20)
	case codes.Unavailable, codes.Unknown:
		return errs.WithHint(wrapped, "is the master running at %s? start one with: mooncake master", at)
	default:
		return wrapped
	}
}

// notSent is store.ErrNotSent with a reason.
type notSent string

// Error implements error.
func (n notSent) Error() string { return string(n) }

// Is implements what errors.Is looks for.
func (notSent) Is(target error) bool { return target == store.ErrNotSent }

// foreignMaster is the error of a call to something that is no master of this project.
func foreignMaster(op string, e *lean.ForeignError) error {
	err := &errs.Error{Code: errs.InvalidVersion, Class: errs.ClassPermanent, Op: "master: " + op, Err: e}
	switch e.Protocol {
	case foreign.CoroRPC, foreign.CoroRDMA:
		return errs.WithHint(err, "start this project's master and use its address: mooncake master; or use upstream's client with that one")
	case foreign.HTTP:
		return errs.WithHint(err, "that may be the admin port (metrics_port, 9003) or the metadata service (8080); the master's own port is rpc_port, 50051 by default")
	case foreign.TLS:
		return errs.WithHint(err, "set security.mode and its certificates here as the master has them; if it has none, this is the address of a proxy with TLS")
	case foreign.Redis:
		return errs.WithHint(err, "use the address of a master; that of a Redis server belongs into the metadata server's setting, as redis://HOST:PORT")
	default:
		return errs.WithHint(err, "use the address of this project's master: its rpc_port, 50051 by default")
	}
}
