package tcp

import (
	"fmt"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// reason is why a peer refused a request or a connection.
type reason uint8

const (
	reasonNone reason = iota
	reasonUnknownRegion
	reasonWrongToken
	reasonRange
	reasonReadDenied
	reasonWriteDenied
	reasonDraining
	reasonChecksum
	reasonBadFrame
	reasonTooLong
	reasonStale
	reasonVersion
	reasonBusy
	reasonStopping
	numReasons
)

// reasonInfo is how a reason appears to callers: label in metrics, text, code and class.
type reasonInfo struct {
	label, text string
	code        errs.Code
	class       errs.Class
}

func (r reason) info() reasonInfo {
	switch r {
	case reasonUnknownRegion:
		return reasonInfo{"unknown-region", "the peer has no such region (any more)", errs.InvalidKey, errs.ClassTransientPeer}
	case reasonWrongToken:
		return reasonInfo{"wrong-token", "the key was not issued by this peer for this region", errs.InvalidKey, errs.ClassPermanent}
	case reasonRange:
		return reasonInfo{"range", "the range reaches past the end of the peer's region", errs.InvalidParams, errs.ClassPermanent}
	case reasonReadDenied:
		return reasonInfo{"read-denied", "the region does not allow peers to read", errs.InvalidRead, errs.ClassPermanent}
	case reasonWriteDenied:
		return reasonInfo{"write-denied", "the region does not allow peers to write", errs.InvalidWrite, errs.ClassPermanent}
	case reasonDraining:
		return reasonInfo{"draining", "the peer is withdrawing the region", errs.UnavailableInCurrentStatus, errs.ClassTransientPeer}
	case reasonChecksum:
		return reasonInfo{"checksum", "the payload was damaged on the way", errs.ChecksumMismatch, errs.ClassTransientPath}
	case reasonBadFrame:
		return reasonInfo{"bad-frame", "the peer received bytes that are no frame", errs.TransferFail, errs.ClassTransientPath}
	case reasonTooLong:
		return reasonInfo{"too-long", "the frame is longer than the peer accepts", errs.InvalidParams, errs.ClassPermanent}
	case reasonStale:
		return reasonInfo{"stale", "another process answers there: the peer was restarted", errs.TransferFail, errs.ClassTransientPeer}
	case reasonVersion:
		return reasonInfo{"version", "the peer speaks another version of the protocol", errs.NotSupported, errs.ClassTransientPeer}
	case reasonBusy:
		return reasonInfo{"busy", "the peer has as many connections as it allows", errs.TransferFail, errs.ClassTransientPeer}
	case reasonStopping:
		return reasonInfo{"stopping", "the peer is stopping", errs.TransferFail, errs.ClassTransientPeer}
	default:
		return reasonInfo{fmt.Sprintf("reason-%d", r), fmt.Sprintf("the peer refused, reason %d", r), errs.TransferFail, errs.ClassUnknown}
	}
}

// header makes the answer that refuses request id; id 0 is the connection itself.
func (r reason) header(t frameType, id uint64) header {
	i := r.info()
	return header{Type: t, ID: id, Reason: r, Class: i.class, Code: i.code}
}

// refusal is the error that a frameError or frameGoAway stands for. A code or class
// that this version does not know counts as unknown.
func (h *header) refusal(op string) error {
	class := h.Class
	if class > errs.ClassPermanent {
		class = errs.ClassUnknown
	}
	code := h.Code
	if code >= errs.OK {
		code = errs.TransferFail
	}
	return &errs.Error{Code: code, Class: class, Op: op, Err: fmt.Errorf("%s", h.Reason.info().text)}
}
