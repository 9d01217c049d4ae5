package rail

import (
	"errors"
	"syscall"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/device"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// deviceError is a failure of this side's device while a connection is made or used. One
// without memory left is told with its limit.
func deviceError(op string, err error) error {
	e := &errs.Error{Code: errs.TransferFail, Class: errs.ClassLocalDevice, Op: op, Err: err}
	switch {
	case errors.Is(err, device.ErrConnect):
		e.Class = errs.ClassTransientPath
		e.Hint = "check that both addresses (GID) are of the same kind and routed to each other: ibv_devinfo -v"
	case errors.Is(err, syscall.ENOMEM):
		e.Hint = "the device has no queue pair or memory left, or RLIMIT_MEMLOCK is low: lower max_endpoints, qp_per_endpoint or max_wr, or run with ulimit -l unlimited"
	}
	return e
}

// ErrStopping is the end of operations when the transport stops.
func ErrStopping(op string) error {
	return &errs.Error{Code: errs.TransferFail, Class: errs.ClassTransientPath, Op: op, Err: errors.New("the transport is stopping")}
}

func errWithdrawn(op string) error {
	return errs.WithClass(errs.ClassPermanent, op, errs.New(errs.InvalidParams, "", "the local memory was withdrawn while the operation was in flight"))
}
