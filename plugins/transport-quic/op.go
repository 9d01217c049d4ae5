package quic

import (
	"context"

	quicgo "github.com/quic-go/quic-go"

	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/pathkit"
)

// op is an accepted operation. All fields are guarded by path.mu.
type op struct {
	pathkit.Record
	key           *wire.Key
	cut           int      // bytes of Local that were made into chunks so far
	chunks        []*chunk // in flight
	err           error    // the first failure; no chunks are cut after it
	indeterminate bool     // the peer may still store bytes of this Write
	// patient: it failed, and what becomes of its other chunks is awaited, so that they are not
	// indeterminate as well.
	patient bool
	link    pathkit.Link[op]
}

// part is one request: a slice of an op, moved by a goroutine of its own on a stream of its own.
// All fields are guarded by path.mu, except that buf, request and loss are the goroutine's.
type chunk struct {
	op      *op
	index   int // place in op.chunks
	buf     []byte
	write   bool
	request wire.Request
	grant   *transport.Grant // what request shows, nil for nothing
	loss    uint16           // that the answer told
	// stopped asks the goroutine to let go of buf; stream, once there is one, is given up then.
	stopped bool
	stream  *quicgo.Stream
	cancel  context.CancelFunc // while the goroutine waits for a stream
}

// stop has the calls of the goroutine return. The caller holds path.mu.
func (ch *chunk) stop() {
	ch.stopped = true
	if ch.cancel != nil {
		ch.cancel()
	}
	if ch.stream != nil {
		ch.stream.CancelRead(streamCode(wire.ReasonSlow))
		ch.stream.CancelWrite(streamCode(wire.ReasonSlow))
	}
}
