// Package tcp is the transport over plain TCP connections: it runs everywhere and needs no device.
//
// A path keeps a bounded pool of long-lived connections to its peer and pipelines requests over
// them. Operations are cut into slices, which spread over the connections, so that one large
// operation uses several cores and a small one does not wait behind it. Payload moves between the
// socket and the registered memory directly; no buffer of this package lies in between.
//
// Framing. A connection begins with a hello of 64 bytes in each direction. Its first eight bytes
// are a mark that is no TLS record, no HTTP verb, and, read as a little-endian length, larger than
// any memory, so that other protocols on the same port can be told apart. After it come batches: up
// to 64 headers of 64 bytes back to back, each under its own CRC32C, then the payloads of these
// headers in the same order. Because a header says how many more follow it, a receiver always knows
// how many header bytes to read and never reads payload into a header buffer.
//
// Serving. One goroutine serves one accepted connection, in order: it reads a request, moves the
// bytes, answers. A peer that does not read its answers therefore stalls only itself, and a
// connection never holds more than a few KiB of this process.
//
// Upstream. A connection that does not begin with this mark but with a request of
// kvcache-ai/Mooncake is served by that protocol, and a path to such a node speaks it; see
// internal/upstream. It has no keys: README.md says what that means.
//
// When a Write is Quarantined. Once a byte of a Write request has been given to the kernel, the
// peer may still receive and store it, also after the connection is gone. A Write that ends without
// the peer's answer is therefore Quarantined, not Failed. The peer's side of a closed connection
// ends within its stall_timeout. A Read that ends early is always Failed: nothing but this process
// writes its buffer, and it has stopped.
package tcp

import (
	_ "embed" // The manifest is part of the program, so that a host can read it without running it.

	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

//go:generate go run ./cmd/mooncake-plugin-transport-tcp --manifest manifest.json
//go:embed manifest.json
var manifestText string

func manifest() plugin.Manifest { return plugin.MustParseManifest(manifestText) }

// Factory makes TCP transports; see Config for the settings. A transport made by it also implements
// StatsReporter.
func Factory() transport.Factory {
	return transport.Define(manifest(), DefaultConfig, func(c *Config) (transport.Transport, error) {
		return newNode(*c), nil
	})
}
