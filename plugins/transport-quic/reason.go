package quic

import (
	"errors"
	"fmt"

	quicgo "github.com/quic-go/quic-go"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// reason is why a peer refused a request or closed a connection. As the latter it is the
// application error code of QUIC.
type reason uint8

const (
	reasonNone reason = iota
	reasonUnknownRegion
	reasonWrongToken
	reasonRange
	reasonReadDenied
	reasonWriteDenied
	reasonDraining
	reasonBadFrame
	reasonStale
	reasonBusy
	reasonStopping
	reasonTrust
	reasonSlow
	reasonIdle
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
	case reasonBadFrame:
		return reasonInfo{"bad-frame", "the peer received bytes that are no frame", errs.TransferFail, errs.ClassTransientPath}
	case reasonStale:
		return reasonInfo{"stale", "another process answers there: the peer was restarted", errs.TransferFail, errs.ClassTransientPeer}
	case reasonBusy:
		return reasonInfo{"busy", "the peer has as many connections as it allows", errs.TransferFail, errs.ClassTransientPeer}
	case reasonStopping:
		return reasonInfo{"stopping", "the peer is stopping", errs.TransferFail, errs.ClassTransientPeer}
	case reasonTrust:
		return reasonInfo{"trust", "the peer does not accept the certificate of this node (any more)", errs.TransferFail, errs.ClassTransientPeer}
	case reasonSlow:
		return reasonInfo{"slow", "the request took longer than the peer works on one", errs.RPCTimeout, errs.ClassTransientPath}
	case reasonIdle:
		return reasonInfo{"idle", "the connection had no work", errs.TransferFail, errs.ClassTransientPath}
	default:
		return reasonInfo{fmt.Sprintf("reason-%d", r), fmt.Sprintf("the peer refused, reason %d", r), errs.TransferFail, errs.ClassUnknown}
	}
}

// answer makes the answer that refuses a request.
func (r reason) answer() answer {
	i := r.info()
	return answer{Type: frameError, Reason: r, Class: i.class, Code: i.code}
}

// refusal is the error that a frameError stands for. A code or class that this version
// does not know counts as unknown.
func (a *answer) refusal(op string) error {
	class := a.Class
	if class > errs.ClassPermanent {
		class = errs.ClassUnknown
	}
	code := a.Code
	if code >= errs.OK {
		code = errs.TransferFail
	}
	return &errs.Error{Code: code, Class: class, Op: op, Err: errors.New(a.Reason.info().text)}
}

// closedFor returns why the peer closed a connection in the words of this protocol,
// reasonNone where err says nothing of the kind.
func closedFor(err error) reason {
	var app *quicgo.ApplicationError
	if errors.As(err, &app) && app.Remote && app.ErrorCode > 0 && app.ErrorCode < quicgo.ApplicationErrorCode(numReasons) {
		return reason(app.ErrorCode)
	}
	return reasonNone
}
