package tcp

import (
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
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

// refusals are what the reasons mean for callers.
var refusals = []transportkit.Refusal{
	reasonUnknownRegion: transportkit.UnknownRegion,
	reasonWrongToken:    transportkit.WrongToken,
	reasonRange:         transportkit.OutOfRange,
	reasonReadDenied:    transportkit.ReadDenied,
	reasonWriteDenied:   transportkit.WriteDenied,
	reasonDraining:      transportkit.Draining,
	reasonChecksum: {
		Label: "checksum", Text: "the payload was damaged on the way",
		Code: errs.ChecksumMismatch, Class: errs.ClassTransientPath,
	},
	reasonBadFrame: transportkit.BadFrame,
	reasonTooLong: {
		Label: "too-long", Text: "the frame is longer than the peer accepts",
		Code: errs.InvalidParams, Class: errs.ClassPermanent,
	},
	reasonStale: transportkit.Stale,
	reasonVersion: {
		Label: "version", Text: "the peer speaks another version of the protocol",
		Code: errs.NotSupported, Class: errs.ClassTransientPeer,
	},
	reasonBusy:     transportkit.Busy,
	reasonStopping: transportkit.Stopping,
}

func (r reason) info() transportkit.Refusal {
	return transportkit.RefusalOf(refusals, r, errs.ClassUnknown)
}

// header makes the answer that refuses request id; id 0 is the connection itself.
func (r reason) header(t frameType, id uint64) header {
	i := r.info()
	return header{Type: t, ID: id, Reason: r, Class: i.Class, Code: i.Code}
}

// refusal is the error that a frameError or frameGoAway stands for. A code or class
// that this version does not know counts as unknown.
func (h *header) refusal(op string) error {
	return h.Reason.info().As(h.Code, h.Class).Error(op)
}
