package tcp

import (
	"sync/atomic"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

// StatsReporter is what a transport made by Factory implements besides the contract.
type StatsReporter interface {
	// Stats returns the counters since New. Safe for concurrent use; the numbers are not of one
	// instant.
	Stats() Stats
}

// Stats are the counters of one transport. All but the two gauges only grow. Accepted counts
// connections that said hello.
type Stats struct {
	transportkit.Stats
	// DiscardedBytes is payload that was read off a connection and thrown away, since its operation
	// had ended or its request was refused. It is the only payload that passes through a buffer of
	// the transport.
	DiscardedBytes uint64
	// ReadCalls and WriteCalls count calls into the sockets, both sides.
	ReadCalls, WriteCalls uint64
	// AcceptedUpstream counts connections that began with a request of upstream's protocol.
	AcceptedUpstream uint64
	// ConnectionsOut and ConnectionsIn are gauges.
	ConnectionsOut, ConnectionsIn int64
	// ConnectionsCut counts connections that ended with an error while they had work.
	ConnectionsCut uint64
	// Foreign counts connections of other protocols, also of upstream's if it is switched off,
	// Overflow those closed because too many were open.
	Foreign, Overflow uint64
	// Untrusted counts connections that were refused for the security mode of this process: without TLS,
	// or without a certificate that it takes.
	Untrusted uint64
}

// counters is Stats while it counts.
type counters struct {
	transportkit.Counters
	discarded, readCalls, writeCalls atomic.Uint64
	acceptedUpstream                 atomic.Uint64
	connsOut, connsIn                atomic.Int64
	connsCut, foreign, overflow      atomic.Uint64
	untrusted                        atomic.Uint64
}

// refuse counts a refusal; frame.ReasonNone is none.
func (c *counters) refuse(r frame.Reason) { c.Refuse(uint8(r)) }

func (c *counters) snapshot() Stats {
	return Stats{
		Stats: c.Stats(frame.Refusals), DiscardedBytes: c.discarded.Load(), ReadCalls: c.readCalls.Load(), WriteCalls: c.writeCalls.Load(),
		AcceptedUpstream: c.acceptedUpstream.Load(),
		ConnectionsOut:   c.connsOut.Load(), ConnectionsIn: c.connsIn.Load(), ConnectionsCut: c.connsCut.Load(),
		Foreign: c.foreign.Load(), Overflow: c.overflow.Load(), Untrusted: c.untrusted.Load(),
	}
}
