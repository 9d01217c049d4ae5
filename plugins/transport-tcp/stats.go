package tcp

import (
	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"sync/atomic"
)

// StatsReporter is what a transport made by Factory implements besides the contract.
type StatsReporter interface {
	// Stats returns the counters since New. Safe for concurrent use; the numbers are not
	// of one instant.
	Stats() Stats
}

// Stats are the counters of one transport. All but the two gauges only grow.
type Stats struct {
	// Operations submitted by this side, by how they ended, and the bytes of those that
	// ended OK.
	OpsOK, OpsFailed, OpsQuarantined uint64
	BytesRead, BytesWritten          uint64
	// Requests of peers that were carried out here. One operation is one request for each
	// slice.
	ServedReads, ServedWrites         uint64
	ServedBytesRead, ServedBytesWrite uint64
	// DiscardedBytes is payload that was read off a connection and thrown away, since its
	// operation had ended or its request was refused. It is the only payload that passes
	// through a buffer of the transport.
	DiscardedBytes uint64
	// ReadCalls and WriteCalls count calls into the sockets, both sides.
	ReadCalls, WriteCalls uint64
	// Dials and DialsFailed count attempts to connect; Accepted connections that said hello.
	Dials, DialsFailed, Accepted uint64
	// AcceptedUpstream counts connections that began with a request of upstream's protocol.
	AcceptedUpstream uint64
	// ConnectionsOut and ConnectionsIn are gauges.
	ConnectionsOut, ConnectionsIn int64
	// ConnectionsCut counts connections that ended with an error while they had work.
	ConnectionsCut uint64
	// Foreign counts connections of other protocols, which upstream's is where it is switched
	// off, Overflow those closed because too
	// many were open.
	Foreign, Overflow uint64
	// Refused counts what this side refused its peers, by reason.
	Refused map[string]uint64
}

// counters is Stats while it counts.
type counters struct {
	opsOK, opsFailed, opsQuarantined    atomic.Uint64
	bytesRead, bytesWritten             atomic.Uint64
	servedReads, servedWrites           atomic.Uint64
	servedBytesRead, servedBytesWritten atomic.Uint64
	discarded, readCalls, writeCalls    atomic.Uint64
	dials, dialsFailed, accepted        atomic.Uint64
	acceptedUpstream                    atomic.Uint64
	connsOut, connsIn                   atomic.Int64
	connsCut, foreign, overflow         atomic.Uint64
	refused                             [frame.NumReasons]atomic.Uint64
}

// refuse counts a refusal; reasonNone is none.
func (c *counters) refuse(r frame.Reason) {
	if r > frame.ReasonNone && r < frame.NumReasons {
		c.refused[r].Add(1)
	}
}

func (c *counters) snapshot() Stats {
	s := Stats{
		OpsOK: c.opsOK.Load(), OpsFailed: c.opsFailed.Load(), OpsQuarantined: c.opsQuarantined.Load(),
		BytesRead: c.bytesRead.Load(), BytesWritten: c.bytesWritten.Load(),
		ServedReads: c.servedReads.Load(), ServedWrites: c.servedWrites.Load(),
		ServedBytesRead: c.servedBytesRead.Load(), ServedBytesWrite: c.servedBytesWritten.Load(),
		DiscardedBytes: c.discarded.Load(), ReadCalls: c.readCalls.Load(), WriteCalls: c.writeCalls.Load(),
		Dials: c.dials.Load(), DialsFailed: c.dialsFailed.Load(), Accepted: c.accepted.Load(),
		AcceptedUpstream: c.acceptedUpstream.Load(),
		ConnectionsOut:   c.connsOut.Load(), ConnectionsIn: c.connsIn.Load(), ConnectionsCut: c.connsCut.Load(),
		Foreign: c.foreign.Load(), Overflow: c.overflow.Load(), Refused: map[string]uint64{},
	}
	for r := frame.ReasonNone + 1; r < frame.NumReasons; r++ {
		if n := c.refused[r].Load(); n > 0 {
			s.Refused[r.Info().Label] = n
		}
	}
	return s
}
