package wire

import (
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

// Reason is why a peer refused a request or closed a connection. As the latter it is the application
// error code of QUIC. The first numbers, to ReasonDraining, are those of regionkit.Refusal.
type Reason uint8

// The reasons of a refusal. ReasonNone is no refusal.
const (
	ReasonNone Reason = iota
	ReasonUnknownRegion
	ReasonWrongToken
	ReasonRange
	ReasonReadDenied
	ReasonWriteDenied
	ReasonDraining
	ReasonBadFrame
	ReasonStale
	ReasonBusy
	ReasonStopping
	ReasonTrust
	ReasonSlow
	ReasonIdle
	NumReasons
)

// Refusals are what the reasons mean for callers.
var Refusals = []transportkit.Refusal{
	ReasonUnknownRegion: transportkit.UnknownRegion,
	ReasonWrongToken:    transportkit.WrongToken,
	ReasonRange:         transportkit.OutOfRange,
	ReasonReadDenied:    transportkit.ReadDenied,
	ReasonWriteDenied:   transportkit.WriteDenied,
	ReasonDraining:      transportkit.Draining,
	ReasonBadFrame:      transportkit.BadFrame,
	ReasonStale:         transportkit.Stale,
	ReasonBusy:          transportkit.Busy,
	ReasonStopping:      transportkit.Stopping,
	ReasonTrust: {
		Label: "trust", Text: "the peer does not accept the certificate of this node (any more)",
		Code: errs.TransferFail, Class: errs.ClassTransientPeer,
	},
	ReasonSlow: {
		Label: "slow", Text: "the request took longer than the peer works on one",
		Code: errs.RPCTimeout, Class: errs.ClassTransientPath,
	},
	ReasonIdle: {
		Label: "idle", Text: "the connection had no work",
		Code: errs.TransferFail, Class: errs.ClassTransientPath,
	},
}

// Info returns how callers see the reason.
func (r Reason) Info() transportkit.Refusal {
	return transportkit.RefusalOf(Refusals, r, errs.ClassUnknown)
}

// Answer makes the answer that refuses a request.
func (r Reason) Answer() Answer {
	i := r.Info()
	return Answer{Type: FrameError, Reason: r, Class: i.Class, Code: i.Code}
}

// Refusal is the error that a FrameError stands for. A code or class that this version
// does not know counts as unknown.
func (a *Answer) Refusal(op string) error {
	return a.Reason.Info().As(a.Code, a.Class).Error(op)
}
