package wire

import (
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

// Reason is why a peer refused a region or a connection.
type Reason uint8

// The reasons of a refusal. ReasonNone is no refusal.
const (
	ReasonNone Reason = iota
	ReasonVersion
	ReasonStale
	ReasonUser
	ReasonBusy
	ReasonUnknownRegion
	ReasonWrongToken
	ReasonNoAccess
	ReasonDraining
	ReasonStopping
	ReasonPart
	ReasonNoDescriptor
	ReasonProtocol
	NumReasons
)

// Refusals are what the reasons mean for callers.
var Refusals = []transportkit.Refusal{
	ReasonVersion: {
		Label: "version", Text: "the peer speaks another version of the protocol",
		Code: errs.NotSupported, Class: errs.ClassTransientPath,
	},
	ReasonStale: {
		Label: "stale", Text: "another start of the transport answers there",
		Code: errs.TransferFail, Class: errs.ClassTransientPeer,
	},
	ReasonUser: {
		Label: "user", Text: "the peer admits its own user only (setting access)",
		Code: errs.IllegalClient, Class: errs.ClassTransientPath,
	},
	ReasonBusy: {
		Label: "busy", Text: "the peer has as many connections as it allows",
		Code: errs.TransferFail, Class: errs.ClassTransientPath,
	},
	ReasonUnknownRegion: transportkit.UnknownRegion,
	ReasonWrongToken:    transportkit.WrongToken,
	ReasonNoAccess: {
		Label: "no-access", Text: "the region is not open to peers",
		Code: errs.InvalidKey, Class: errs.ClassPermanent,
	},
	ReasonDraining: {
		Label: "draining", Text: "the peer has withdrawn the region",
		Code: errs.InvalidKey, Class: errs.ClassTransientPeer,
	},
	ReasonStopping: transportkit.Stopping,
	ReasonPart: {
		Label: "part", Text: "the region shares its memory object with other memory, which a process of another user must not get",
		Code: errs.NotSupported, Class: errs.ClassTransientPath,
	},
	ReasonNoDescriptor: {
		Label: "no-descriptor", Text: "the peer could not make a descriptor of the region",
		Code: errs.NotSupported, Class: errs.ClassTransientPath,
	},
	ReasonProtocol: {
		Label: "protocol", Text: "the peer got a message that makes no sense",
		Code: errs.TransferFail, Class: errs.ClassTransientPath,
	},
}

// Info returns how callers see the reason.
func (r Reason) Info() transportkit.Refusal {
	return transportkit.RefusalOf(Refusals, r, errs.ClassTransientPath)
}

// Error is what a caller gets.
func (r Reason) Error(op string) error {
	return r.Info().Error(op)
}
