package rpc

import (
	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// The protocol that this build speaks. Another major number on the other side ends in
// InvalidVersion; a higher minor number only adds.
const (
	ProtocolMajor = 2
	ProtocolMinor = 0
)

// MaxMessageSize bounds a message in bytes, in both directions.
const MaxMessageSize = 16 << 20

// Bounds of one message. The client cuts larger batches into several calls; the server
// refuses them with InvalidParams.
const (
	maxItems      = 1 << 16 // items of one batch that a server takes
	maxListKeys   = 1 << 14 // keys of one page of ListKeys
	maxListBytes  = 8 << 20 // bytes of keys in one page of ListKeys
	maxErrorBytes = 1 << 10 // text of one error, reason or message

	maxObjects      = 1 << 12 // objects of one page of GetReplicasByRegex
	maxObjectsBytes = 8 << 20 // bytes of one such page
	maxPeers        = 1 << 12 // endpoints that one ping reports on
	maxTextBytes    = 1 << 10 // a name, group, tenant, host or endpoint
	maxNames        = 1 << 10 // preferred segments of a put
	maxTargets      = 1 << 6  // segments that one copy is made on
	// maxFetch keeps an answer with tasks sendable: each has a key of at most
	// model.MaxKeySize and maxTargets names.
	maxFetch = 100
)

func ownProtocol() *masterv1.Protocol {
	return &masterv1.Protocol{Major: ProtocolMajor, Minor: ProtocolMinor}
}

// checkProtocol compares the other side's protocol with ours.
func checkProtocol(op, ourVersion, theirVersion string, p *masterv1.Protocol) error {
	if p.GetMajor() == ProtocolMajor {
		return nil
	}
	return errs.WithHint(
		errs.New(errs.InvalidVersion, op, "the master (version %q) speaks protocol %d.%d, this side (version %q) %d.%d",
			theirVersion, p.GetMajor(), p.GetMinor(), ourVersion, ProtocolMajor, ProtocolMinor),
		"run the same release on both sides")
}
