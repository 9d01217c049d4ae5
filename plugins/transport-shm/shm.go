// Package shm is the transport between processes of one host: the owner of a region hands its peers
// the descriptor of the shared memory, they map it, and an operation is one copy by the process
// that submitted it.
//
// Meeting. An endpoint names the host (boot and network namespace), an abstract socket and a secret
// of this start. Dial refuses an endpoint of another host with class transient-path before it tries
// anything. Both ends of a connection ask the kernel who the other one is (SO_PEERCRED) and go on
// only as the access setting allows. The connection is SOCK_SEQPACKET and carries messages of 64
// bytes, see wire.go: hello, then one attach for each region that is used, answered with its
// descriptor.
//
// Copying. Submit queues; a bounded pool of workers copies. Operations are cut into slices, and
// take turns; small ones are taken several at a time. Nothing but this process ever moves its
// bytes, so an operation that failed is Failed, never Quarantined.
//
// Giving memory back. Deregister closes a region to new peers, tells those who mapped it, and waits
// until each unmapped it. A peer unmaps once its running copies ended. A connection that ends says
// the same: this transport closes its end only after everything is unmapped, and the kernel closes
// it for a process only after the last of its threads left user space; a descriptor that another
// process inherited delays the end, it never brings it forward. A peer that lives and does not
// answer keeps the memory: the error says that it must not be reused yet. The owner therefore never
// closes a connection over which memory is out, whatever the peer did.
//
// Memory of others. A mapping of memory that shrinks ends the reader with SIGBUS. Only memfds that
// are sealed against shrinking are sent and accepted, and a mapping lies within their size.
package shm

import (
	_ "embed" // The manifest is part of the program, so that a host can read it without running it.

	"github.com/mooncake-go/mooncake/plugins/transport-shm/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Factory makes shared-memory transports; see Config for the settings. A transport made by it also
// implements StatsReporter.
func Factory() transport.Factory {
	return transport.Define(manifest(), DefaultConfig, func(c *Config) (transport.Transport, error) {
		return newNode(*c), nil
	}, plugin.WithCheck(func() error { _, err := wire.ThisHost(); return err }))
}

//go:generate go run ./cmd/mooncake-plugin-transport-shm --manifest manifest.json
//go:embed manifest.json
var manifestText string

func manifest() plugin.Manifest { return plugin.MustParseManifest(manifestText) }
