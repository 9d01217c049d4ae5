package store

import (
	"context"
	"errors"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// IsMiss reports whether an error of a read means that the object is not available right
// now and has to be made anew: it is not there, its copies are lost or damaged, or they
// could not be reached in time. Errors of the call itself (bad parameters, an unreachable
// master, a cancelled context) are no misses.
func IsMiss(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	switch errs.CodeOf(err) {
	case errs.ObjectNotFound, errs.ReplicaIsNotReady, errs.ReplicaIsGone, errs.InvalidReplica,
		errs.ChecksumMismatch, errs.LeaseExpired, errs.TransferFail:
		return true
	}
	return false
}
