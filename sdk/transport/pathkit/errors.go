package pathkit

import (
	"context"
	"fmt"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// ErrClosed is what Import, Submit and Reap return on a closed path, and what the operations fail
// with that are in flight when it is closed. The lock need not be held for any of the errors
// but ErrOverdue.
func (b *Base[R, T, O]) ErrClosed() error {
	return &errs.Error{Code: errs.TransferFail, Class: errs.ClassTransientPath, Op: b.name, Err: transport.ErrPathClosed}
}

// ErrDeadline is what an operation fails with whose deadline has passed. last is what failed before
// and may be the reason, such as an attempt to connect, or nil.
func (b *Base[R, T, O]) ErrDeadline(last error) error {
	err := context.DeadlineExceeded
	if last != nil {
		err = fmt.Errorf("%w; before: %w", err, last)
	}
	return &errs.Error{Code: errs.RPCTimeout, Class: errs.ClassTransientPath, Op: b.name, Err: err}
}

// ErrOverdue is what an operation fails with that the function given to Init has to end: its
// deadline has passed, the path has moved nothing for its stall limit, or it is a hasty read whose
// peer is silent. last is as for ErrDeadline. The lock is held.
func (b *Base[R, T, O]) ErrOverdue(o O, last error) error {
	r, now := o.record(), time.Now()
	err, class := context.DeadlineExceeded, errs.ClassTransientPath
	switch {
	case r.Late(now) || r.Stall <= 0 && !b.left(r, now):
		return b.ErrDeadline(last)
	case b.left(r, now):
		class = errs.ClassTransientPeer
		err = fmt.Errorf("%w: the peer was silent for %s", err, b.silence(r))
	default:
		err = fmt.Errorf("%w: nothing has moved for %s", err, b.limit(r))
	}
	if last != nil {
		err = fmt.Errorf("%w; before: %w", err, last)
	}
	return &errs.Error{Code: errs.RPCTimeout, Class: class, Op: b.name, Err: err}
}

// ErrKey is what Import returns for a malformed key; err says what is wrong with it.
func (b *Base[R, T, O]) ErrKey(err error) error {
	return errs.Wrap(errs.InvalidKey, b.name+importing, err)
}

// ErrIncarnation is what Import returns for a key of another incarnation than the dialled
// endpoint's.
func (b *Base[R, T, O]) ErrIncarnation(key, endpoint uint64) error {
	return &errs.Error{
		Code: errs.InvalidKey, Class: errs.ClassTransientPeer, Op: b.name + importing,
		Err:  fmt.Errorf("the key is of incarnation %d, the dialled endpoint of %d", key, endpoint),
		Hint: "fetch the peer's endpoint and keys again",
	}
}
