package uds

import (
	"errors"
	"fmt"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// reason says why a peer refused a request or a connection.
type reason uint8

const (
	reasonNone reason = iota
	reasonVersion
	reasonStale
	reasonBusy
	reasonStopping
	reasonUnknownRegion
	reasonWrongToken
	reasonNoRead
	reasonNoWrite
	reasonRange
	reasonDraining
)

// error returns the error for the caller. Its class tells the engine what to try next: another path
// to the same peer (transient-path), another peer that has the same bytes (transient-peer), or
// nothing (permanent).
func (r reason) error(op string) error {
	text, code, class := "", errs.TransferFail, errs.ClassTransientPath
	switch r {
	case reasonVersion:
		text, code = "the peer speaks another version of the protocol", errs.NotSupported
	case reasonStale:
		text, class = "another start of the transport answers at this endpoint", errs.ClassTransientPeer
	case reasonBusy:
		text = "the peer has as many connections as it allows"
	case reasonStopping:
		text, class = "the peer is stopping", errs.ClassTransientPeer
	case reasonUnknownRegion:
		text, code, class = "the peer has no such region (any more)", errs.InvalidKey, errs.ClassTransientPeer
	case reasonWrongToken:
		text, code, class = "the key was not issued by this peer for this region", errs.InvalidKey, errs.ClassPermanent
	case reasonNoRead:
		text, code, class = "the region does not allow peers to read", errs.InvalidRead, errs.ClassPermanent
	case reasonNoWrite:
		text, code, class = "the region does not allow peers to write", errs.InvalidWrite, errs.ClassPermanent
	case reasonRange:
		text, code, class = "the range reaches past the end of the peer's region", errs.InvalidParams, errs.ClassPermanent
	case reasonDraining:
		text, code, class = "the peer is withdrawing the region", errs.InvalidKey, errs.ClassTransientPeer
	default: // A later version may have more reasons.
		text, class = fmt.Sprintf("the peer refused, reason %d", r), errs.ClassUnknown
	}
	return &errs.Error{Code: code, Class: class, Op: op, Err: errors.New(text)}
}
