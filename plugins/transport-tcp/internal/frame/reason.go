package frame

import (
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport/regionkit"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

// Reason is why a peer refused a request or a connection. The first numbers, to ReasonDraining, are
// those of regionkit.Refusal, as are those from ReasonWriteEnded on, in their order.
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
	ReasonChecksum
	ReasonBadFrame
	ReasonTooLong
	ReasonStale
	ReasonVersion
	ReasonBusy
	ReasonStopping
	ReasonWriteEnded
	ReasonGrantMissing
	ReasonGrantWrong
	ReasonGrantOver
	NumReasons
)

// ReasonOf returns the reason for what the table of regions says.
func ReasonOf(why regionkit.Refusal) Reason {
	if why >= regionkit.WriteEnded {
		return Reason(why-regionkit.WriteEnded) + ReasonWriteEnded
	}
	return Reason(why)
}

// Refusals are what the reasons mean for callers.
var Refusals = []transportkit.Refusal{
	ReasonUnknownRegion: transportkit.UnknownRegion,
	ReasonWrongToken:    transportkit.WrongToken,
	ReasonRange:         transportkit.OutOfRange,
	ReasonReadDenied:    transportkit.ReadDenied,
	ReasonWriteDenied:   transportkit.WriteDenied,
	ReasonDraining:      transportkit.Draining,
	ReasonChecksum:      transportkit.Refuse("checksum", "the payload was damaged on the way", errs.ChecksumMismatch, errs.ClassTransientPath),
	ReasonBadFrame:      transportkit.BadFrame,
	ReasonTooLong:       transportkit.Refuse("too-long", "the frame is longer than the peer accepts", errs.InvalidParams, errs.ClassPermanent),
	ReasonStale:         transportkit.Stale,
	ReasonVersion:       transportkit.Refuse("version", "the peer speaks another version of the protocol", errs.NotSupported, errs.ClassTransientPeer),
	ReasonBusy:          transportkit.Busy,
	ReasonStopping:      transportkit.Stopping,
	ReasonWriteEnded:    transportkit.WriteEnded,
	ReasonGrantMissing:  transportkit.GrantMissing,
	ReasonGrantWrong:    transportkit.GrantWrong,
	ReasonGrantOver:     transportkit.GrantOver,
}

// Info returns how callers see the reason.
func (r Reason) Info() transportkit.Refusal {
	return transportkit.RefusalOf(Refusals, r, errs.ClassUnknown)
}
