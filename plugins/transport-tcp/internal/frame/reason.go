package frame

import (
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

// reason is why a peer refused a request or a connection. The first numbers, to reasonDraining, are
// those of regionkit.Refusal.
type Reason uint8

const (
	ReasonNone Reason = iota
	ReasonUnknownRegion
	ReasonWrongToken
	ReasonRange
	ReasonReadDenied
	ReasonWriteDenied
	ReasonDraining
	ReasonChecksum
	ReasonBadFrame
	ReasonTooLong
	ReasonStale
	ReasonVersion
	ReasonBusy
	ReasonStopping
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
	ReasonChecksum: {
		Label: "checksum", Text: "the payload was damaged on the way",
		Code: errs.ChecksumMismatch, Class: errs.ClassTransientPath,
	},
	ReasonBadFrame: transportkit.BadFrame,
	ReasonTooLong: {
		Label: "too-long", Text: "the frame is longer than the peer accepts",
		Code: errs.InvalidParams, Class: errs.ClassPermanent,
	},
	ReasonStale: transportkit.Stale,
	ReasonVersion: {
		Label: "version", Text: "the peer speaks another version of the protocol",
		Code: errs.NotSupported, Class: errs.ClassTransientPeer,
	},
	ReasonBusy:     transportkit.Busy,
	ReasonStopping: transportkit.Stopping,
}

func (r Reason) Info() transportkit.Refusal {
	return transportkit.RefusalOf(Refusals, r, errs.ClassUnknown)
}
