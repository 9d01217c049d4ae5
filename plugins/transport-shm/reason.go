package shm

import (
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
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

// refusals are what the reasons mean for callers.
var refusals = []transportkit.Refusal{
	reasonVersion: {
		Label: "version", Text: "the peer speaks another version of the protocol",
		Code: errs.NotSupported, Class: errs.ClassTransientPath,
	},
	reasonStale: {
		Label: "stale", Text: "another start of the transport answers there",
		Code: errs.TransferFail, Class: errs.ClassTransientPeer,
	},
	reasonUser: {
		Label: "user", Text: "the peer admits its own user only (setting access)",
		Code: errs.IllegalClient, Class: errs.ClassTransientPath,
	},
	reasonBusy: {
		Label: "busy", Text: "the peer has as many connections as it allows",
		Code: errs.TransferFail, Class: errs.ClassTransientPath,
	},
	reasonUnknownRegion: transportkit.UnknownRegion,
	reasonWrongToken:    transportkit.WrongToken,
	reasonNoAccess: {
		Label: "no-access", Text: "the region is not open to peers",
		Code: errs.InvalidKey, Class: errs.ClassPermanent,
	},
	reasonDraining: {
		Label: "draining", Text: "the peer has withdrawn the region",
		Code: errs.InvalidKey, Class: errs.ClassTransientPeer,
	},
	reasonStopping: transportkit.Stopping,
	reasonPart: {
		Label: "part", Text: "the region shares its memory object with other memory, which a process of another user must not get",
		Code: errs.NotSupported, Class: errs.ClassTransientPath,
	},
	reasonNoDescriptor: {
		Label: "no-descriptor", Text: "the peer could not make a descriptor of the region",
		Code: errs.NotSupported, Class: errs.ClassTransientPath,
	},
	reasonProtocol: {
		Label: "protocol", Text: "the peer got a message that makes no sense",
		Code: errs.TransferFail, Class: errs.ClassTransientPath,
	},
}

func (r reason) info() transportkit.Refusal {
	return transportkit.RefusalOf(refusals, r, errs.ClassTransientPath)
}

// error is what a caller gets.
func (r reason) error(op string) error {
	return r.info().Error(op)
}
