package quic

import (
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/wire"
)

// StatsReporter is what a transport made by Factory implements besides the contract.
type StatsReporter interface {
	// Stats returns the counters since New. Safe for concurrent use; the numbers are not
	// of one instant.
	Stats() Stats
}

// Stats are the counters of one transport.
type Stats struct {
	// Operations submitted by this side, by how they ended, and the bytes of those that
	// ended OK.
	OpsOK, OpsFailed, OpsQuarantined uint64
	BytesRead, BytesWritten          uint64
	// Requests of peers that were carried out here. One operation is one request for each
	// slice.
	ServedReads, ServedWrites         uint64
	ServedBytesRead, ServedBytesWrite uint64
	// Dials and DialsFailed count attempts to connect; Accepted connections that were let in.
	Dials, DialsFailed, Accepted uint64
	// ConnectionsCut counts connections that ended with an error while they had work.
	ConnectionsCut uint64
	// Untrusted counts connections that were closed because the peer's certificate ended or
	// the authority was replaced, Overflow those closed because too many were open.
	Untrusted, Overflow uint64
	// Reloads counts how often the certificate files were taken up anew.
	Reloads uint64
	// Refused counts what this side refused its peers, by reason.
	Refused map[string]uint64
	// SocketReceive and SocketSend are the buffers of the listening socket in bytes.
	SocketReceive, SocketSend int
	// Connections describes the open connections.
	Connections []ConnectionStats
}

// ConnectionStats describe one open connection.
type ConnectionStats struct {
	Peer    string
	Dialled bool
	// GSO says whether many packets are given to the kernel at once.
	GSO bool
	// Datagram is about how many bytes fit into one packet, as far as the discovery of the
	// path's limit has come; 0 before the handshake has ended.
	Datagram int
	// Window is the congestion window in bytes, RTT the smoothed and MinRTT the least
	// round trip.
	Window      uint64
	RTT, MinRTT time.Duration
	// Packets that this side sent, and how many of them were lost.
	PacketsSent, PacketsLost uint64
	BytesSent, BytesReceived uint64
}

// counters is Stats while it counts.
type counters struct {
	opsOK, opsFailed, opsQuarantined    atomic.Uint64
	bytesRead, bytesWritten             atomic.Uint64
	servedReads, servedWrites           atomic.Uint64
	servedBytesRead, servedBytesWritten atomic.Uint64
	dials, dialsFailed, accepted        atomic.Uint64
	connsCut, untrusted, overflow       atomic.Uint64
	refused                             [wire.NumReasons]atomic.Uint64
}

// refuse counts a refusal; ReasonNone is none.
func (c *counters) refuse(r wire.Reason) {
	if r > wire.ReasonNone && r < wire.NumReasons {
		c.refused[r].Add(1)
	}
}

// Stats implements StatsReporter.
func (n *node) Stats() Stats {
	c := &n.stats
	s := Stats{
		OpsOK: c.opsOK.Load(), OpsFailed: c.opsFailed.Load(), OpsQuarantined: c.opsQuarantined.Load(),
		BytesRead: c.bytesRead.Load(), BytesWritten: c.bytesWritten.Load(),
		ServedReads: c.servedReads.Load(), ServedWrites: c.servedWrites.Load(),
		ServedBytesRead: c.servedBytesRead.Load(), ServedBytesWrite: c.servedBytesWritten.Load(),
		Dials: c.dials.Load(), DialsFailed: c.dialsFailed.Load(), Accepted: c.accepted.Load(),
		ConnectionsCut: c.connsCut.Load(), Untrusted: c.untrusted.Load(), Overflow: c.overflow.Load(),
		Reloads: n.trust.Reloads.Load(), Refused: map[string]uint64{},
	}
	for r := wire.ReasonNone + 1; r < wire.NumReasons; r++ {
		if x := c.refused[r].Load(); x > 0 {
			s.Refused[r.Info().Label] = x
		}
	}
	n.mu.Lock()
	s.SocketReceive, s.SocketSend = n.granted.Receive, n.granted.Send
	n.mu.Unlock()
	for _, c := range n.connections() {
		q := c.quic.ConnectionStats()
		s.Connections = append(s.Connections, ConnectionStats{
			Peer: c.quic.RemoteAddr().String(), Dialled: c.dialled, GSO: c.quic.ConnectionState().GSO, Datagram: datagramSize(c.quic),
			Window: q.CongestionWindow, RTT: q.SmoothedRTT, MinRTT: q.MinRTT,
			PacketsSent: q.PacketsSent, PacketsLost: q.PacketsLost, BytesSent: q.BytesSent, BytesReceived: q.BytesReceived,
		})
	}
	return s
}
