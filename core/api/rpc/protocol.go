// Package rpc is the protocol between the master and its clients: version, and bounds of a message.
// Package server serves any store.Master, package client is a store.Master that asks a server, and
// package convert turns values into messages and back. Both sides speak gRPC, which is the public
// interface, and among themselves the leaner framing of package lean, with the same messages on the
// same port.
//
// Package staging is the protocol between readers and the nodes of storage tiers, over gRPC alone.
//
// The messages are those of sdk/proto/mooncake/master/v1 and node/v1. An error crosses the network with code,
// class and text, per item or for the call, so that callers cannot tell a remote master from one in
// the same process.
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
	MaxItems      = 1 << 16 // items of one batch that a server takes
	MaxListKeys   = 1 << 14 // keys of one page of ListKeys
	MaxListBytes  = 8 << 20 // bytes of keys in one page of ListKeys
	MaxErrorBytes = 1 << 10 // text of one error, reason or message

	MaxObjects      = 1 << 12 // objects of one page of GetReplicasByRegex
	MaxObjectsBytes = 8 << 20 // bytes of one such page
	MaxPeers        = 1 << 12 // endpoints that one ping reports on
	MaxTextBytes    = 1 << 10 // a name, group, tenant, host or endpoint
	MaxNames        = 1 << 10 // preferred segments of a put
	MaxTargets      = 1 << 6  // segments that one copy is made on
	// MaxFetch keeps an answer with tasks sendable: each has a key of at most
	// model.MaxKeySize and MaxTargets names.
	MaxFetch = 100

	MaxStageReads = 1 << 10 // reads of one call of Stage
)

// Bounds of a call of Stage in bytes. An answer may have an error for every read.
const (
	MaxStageRequest = 256 << 10
	MaxStageAnswer  = 4 << 20
)

// OwnProtocol returns the version of the calls that this program speaks.
func OwnProtocol() *masterv1.Protocol {
	return &masterv1.Protocol{Major: ProtocolMajor, Minor: ProtocolMinor}
}

// CheckCaller compares the protocol of a caller with that of this master. A caller that names none is of this one.
func CheckCaller(version string, p *masterv1.Protocol) error {
	if p == nil || p.GetMajor() == ProtocolMajor {
		return nil
	}
	return errs.WithHint(errs.New(errs.InvalidVersion, "", "this master speaks protocol %d.%d, the other side (version %q) %d.%d",
		ProtocolMajor, ProtocolMinor, version, p.GetMajor(), p.GetMinor()), sameRelease)
}

const sameRelease = "the releases are too far apart: run the same one on both sides"

// CheckProtocol compares the protocol of a master with that of this side.
func CheckProtocol(op, ourVersion, theirVersion string, p *masterv1.Protocol) error {
	if p.GetMajor() == ProtocolMajor {
		return nil
	}
	return errs.WithHint(
		errs.New(errs.InvalidVersion, op, "the master (version %q) speaks protocol %d.%d, this side (version %q) %d.%d",
			theirVersion, p.GetMajor(), p.GetMinor(), ourVersion, ProtocolMajor, ProtocolMinor),
		sameRelease)
}
