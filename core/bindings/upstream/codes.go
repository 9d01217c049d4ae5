package upstream

import (
	"errors"
	"net"

	"github.com/mooncake-go/mooncake/core/bindings/engine"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// The error numbers. Functions about transfers return them as they are, other functions with the
// sign changed.
const (
	OK                   = 0
	InvalidArgument      = 1
	TooManyRequests      = 2
	AddressNotRegistered = 3
	BatchBusy            = 4
	AddressOverlapped    = 7
	NotSupported         = 8
	Name                 = 101
	Connection           = 102
	Metadata             = 200
	Endpoint             = 201
	Context              = 202
)

// Status returns the number for an error of a call about transfers.
func Status(err error) int {
	switch {
	case err == nil:
		return OK
	case errors.Is(err, transfer.ErrBatchBusy):
		return BatchBusy
	case errors.Is(err, transfer.ErrTooManyRequests):
		return TooManyRequests
	case errors.Is(err, engine.ErrOverlap):
		return AddressOverlapped
	case errors.Is(err, engine.ErrNotRegistered):
		return AddressNotRegistered
	}
	switch errs.CodeOf(err) {
	case errs.InvalidParams:
		return InvalidArgument
	case errs.NoAvailableHandle:
		return TooManyRequests
	case errs.NotSupported:
		return NotSupported
	case errs.RPCFail, errs.RPCTimeout:
		return Metadata
	case errs.TransferFail:
		return Endpoint
	}
	return Context
}

// Result returns the number for an error of another call.
func Result(err error) int { return -Status(err) }

// Unreachable returns the number for an error of a call that asks whether a peer answers: -Name if
// the name names no machine, -Connection if no process answers there.
func Unreachable(err error) int {
	var dns *net.DNSError
	switch code := errs.CodeOf(err); {
	case err == nil:
		return OK
	case code == errs.InvalidParams, errors.As(err, &dns):
		return -Name
	case code == errs.RPCFail, code == errs.RPCTimeout:
		return -Connection
	}
	return Result(err)
}
