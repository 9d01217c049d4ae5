// Package quic is the transport over QUIC, for networks with distance and loss, and for networks
// that are not trusted: TLS 1.3 with certificates on both sides.
//
// A path keeps several connections to its peer. Each has a congestion window of its own, so that a
// lost packet slows down one of them. Operations are cut into chunks; each chunk is a stream, so
// that a lost packet delays the chunks that it carried and no other.
//
// Framing. The side that dialled opens a stream, sends a request of 64 bytes, the payload of a
// Write, and the end of its side; the answer is 16 bytes, the payload of a Read, and the end.
// Versions are told apart by the protocol that TLS agrees on. A request names the incarnation that
// it wants to reach, so connecting takes one round trip.
//
// Payload moves between the registered memory and the buffers of quic-go, which encrypts there: one
// copy at each end.
//
// When a Write is quarantined. Once a stream was opened for a Write, the peer may receive and store
// it, also after the stream was given up. A Write that ends without the peer's answer is therefore
// Quarantined, not Failed, unless the peer closed the connection because it stops: it does so when
// it has finished the requests in progress. A Read that ends early is Failed: nothing but this
// process writes its buffer, and it has stopped.
package quic

import (
	_ "embed" // The manifest is part of the program, so that a host can read it without running it.

	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Factory makes QUIC transports; see Config for the settings. A transport made by it also
// implements StatsReporter.
func Factory() transport.Factory {
	return transport.Define(manifest(), DefaultConfig, func(c *Config) (transport.Transport, error) {
		return newNode(*c), nil
	})
}

//go:generate go run ./cmd/mooncake-plugin-transport-quic --manifest manifest.json
//go:embed manifest.json
var manifestText string

func manifest() plugin.Manifest { return plugin.MustParseManifest(manifestText) }
