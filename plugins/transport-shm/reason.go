package shm

import (
	"errors"
	"fmt"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// reason is why a peer refused a region or a connection.
type reason uint8

const (
	reasonNone reason = iota
	reasonVersion
	reasonStale
	reasonUser
	reasonBusy
	reasonUnknownRegion
	reasonWrongToken
	reasonNoAccess
	reasonDraining
	reasonStopping
	reasonPart
	reasonNoDescriptor
	reasonProtocol
	numReasons
)

// reasonInfo is how a reason appears to callers: label in statistics, text, code and class.
type reasonInfo struct {
	label, text string
	code        errs.Code
	class       errs.Class
}

func (r reason) info() reasonInfo {
	switch r {
	case reasonVersion:
		return reasonInfo{"version", "the peer speaks another version of the protocol", errs.NotSupported, errs.ClassTransientPath}
	case reasonStale:
		return reasonInfo{"stale", "another start of the transport answers there", errs.TransferFail, errs.ClassTransientPeer}
	case reasonUser:
		return reasonInfo{"user", "the peer admits its own user only (setting access)", errs.IllegalClient, errs.ClassTransientPath}
	case reasonBusy:
		return reasonInfo{"busy", "the peer has as many connections as it allows", errs.TransferFail, errs.ClassTransientPath}
	case reasonUnknownRegion:
		return reasonInfo{"unknown-region", "the peer has no such region (any more)", errs.InvalidKey, errs.ClassTransientPeer}
	case reasonWrongToken:
		return reasonInfo{"wrong-token", "the key was not issued by this peer for this region", errs.InvalidKey, errs.ClassPermanent}
	case reasonNoAccess:
		return reasonInfo{"no-access", "the region is not open to peers", errs.InvalidKey, errs.ClassPermanent}
	case reasonDraining:
		return reasonInfo{"draining", "the peer has withdrawn the region", errs.InvalidKey, errs.ClassTransientPeer}
	case reasonStopping:
		return reasonInfo{"stopping", "the peer is stopping", errs.TransferFail, errs.ClassTransientPeer}
	case reasonPart:
		return reasonInfo{"part", "the region shares its memory object with other memory, which a process of another user must not get", errs.NotSupported, errs.ClassTransientPath}
	case reasonNoDescriptor:
		return reasonInfo{"no-descriptor", "the peer could not make a descriptor of the region", errs.NotSupported, errs.ClassTransientPath}
	case reasonProtocol:
		return reasonInfo{"protocol", "the peer got a message that makes no sense", errs.TransferFail, errs.ClassTransientPath}
	default:
		return reasonInfo{fmt.Sprintf("reason-%d", r), fmt.Sprintf("the peer refused, reason %d", r), errs.TransferFail, errs.ClassTransientPath}
	}
}

// error is what a caller gets.
func (r reason) error(op string) error {
	i := r.info()
	return &errs.Error{Code: i.code, Class: i.class, Op: op, Err: errors.New(i.text)}
}
