package quic

import (
	"errors"

	quicgo "github.com/quic-go/quic-go"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
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

// refusals are what the reasons mean for callers.
var refusals = []transportkit.Refusal{
	reasonUnknownRegion: transportkit.UnknownRegion,
	reasonWrongToken:    transportkit.WrongToken,
	reasonRange:         transportkit.OutOfRange,
	reasonReadDenied:    transportkit.ReadDenied,
	reasonWriteDenied:   transportkit.WriteDenied,
	reasonDraining:      transportkit.Draining,
	reasonBadFrame:      transportkit.BadFrame,
	reasonStale:         transportkit.Stale,
	reasonBusy:          transportkit.Busy,
	reasonStopping:      transportkit.Stopping,
	reasonTrust: {
		Label: "trust", Text: "the peer does not accept the certificate of this node (any more)",
		Code: errs.TransferFail, Class: errs.ClassTransientPeer,
	},
	reasonSlow: {
		Label: "slow", Text: "the request took longer than the peer works on one",
		Code: errs.RPCTimeout, Class: errs.ClassTransientPath,
	},
	reasonIdle: {
		Label: "idle", Text: "the connection had no work",
		Code: errs.TransferFail, Class: errs.ClassTransientPath,
	},
}

func (r reason) info() transportkit.Refusal {
	return transportkit.RefusalOf(refusals, r, errs.ClassUnknown)
}

// answer makes the answer that refuses a request.
func (r reason) answer() answer {
	i := r.info()
	return answer{Type: frameError, Reason: r, Class: i.Class, Code: i.Code}
}

// refusal is the error that a frameError stands for. A code or class that this version
// does not know counts as unknown.
func (a *answer) refusal(op string) error {
	return a.Reason.info().As(a.Code, a.Class).Error(op)
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
