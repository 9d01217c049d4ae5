// Package rdma is the transport over RDMA verbs: the devices move the bytes between the
// registered memory of two processes, and no processor of the peer takes part.
//
// # Packages
//
// The node in this package implements transport.Transport, and path implements transport.Path. The
// internal packages below form layers; each uses only those to its right:
//
//	rail, inbound -> memory -> device -> verbs, gid, blob, handshake, cache, config
//
// A node has one device for each RDMA device of the machine, also for those that cannot be used,
// so that the numbers in keys keep their meaning. A rail is a device of this side and one of a
// peer. It keeps the operations that wait, and has at most one connection at a time: the queue
// pairs that carry them. A connection that failed is torn down: its queue pairs go to the error
// state, the results of its requests in flight are collected, and the queue pairs are destroyed
// and never used again. The rail makes another connection when there is work.
//
// # Setting up
//
// Nothing on the submit path waits: the first operation for a rail starts a goroutine that
// exchanges one message each way with the peer's bootstrap listener, over TCP, and the operations
// wait in the rail meanwhile. The TCP connection then stays open as a lifeline: when either
// process ends, the other side learns it at once, and frees its queue pairs. Over the lifeline, a
// side that gives up also learns that the peer no longer stores anything. A connection between our
// own nodes carries the operations of the side that made it; one with a node of upstream carries
// both.
//
// # When a Write is quarantined
//
// A Read that failed is over once its queue pair was flushed or destroyed: nothing else stores to
// its buffer. A Write is over when the peer refused it, or reported on the lifeline that its queue
// pairs are destroyed. If neither happens, because the peer does not answer within confirm_timeout
// or has no lifeline, a Write that was in flight is quarantined.
//
// # What a failed connection does to other operations
//
// Operations that were flushed because of the fault of another one (its key was withdrawn, its
// deadline passed) are carried out again on the next connection, once the old one is known to be
// quiet. Operations that were flushed because the path to the peer is broken fail, so that the
// caller can choose another rail.
//
// # Locks
//
// They are taken in this order: path, Rail.mu, and one of the mutexes of Device, Pool, Table and
// node. Nothing blocks while Rail.mu is held; posting work requests counts as not blocking.
package rdma

import (
	_ "embed" // The manifest is part of the program, so that a host can read it without running it.
	"fmt"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/advice"
)

// Factory makes RDMA transports; see Config for the settings. A transport made by it also
// implements transport.Upstream, transport.Changing and StatsReporter.
func Factory() transport.Factory {
	return transport.Define(manifest(), DefaultConfig, func(c *Config) (transport.Transport, error) {
		return newNode(*c), nil
	}, plugin.WithCheck(func() error { return check("") }))
}

//go:generate go run ./cmd/mooncake-plugin-transport-rdma --manifest manifest.json
//go:embed manifest.json
var manifestText string

func manifest() plugin.Manifest { return plugin.MustParseManifest(manifestText) }

// check returns why this machine cannot use the transport: no library, or no device. It
// opens neither a device nor a port, whose state may change until the transport starts.
func check(library string) error {
	lib, err := verbs.Open(library)
	if err != nil {
		return fmt.Errorf("%w (%w)", told(advice.NoLibrary()), err)
	}
	devices, err := lib.Devices()
	if err == nil && len(devices) == 0 {
		return told(advice.NoDevice())
	}
	return err
}

// told is an advice in one line.
func told(a advice.Advice) error { return fmt.Errorf("%s; %s", a.Why, a.Do) }
