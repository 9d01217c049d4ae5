package quic

import (
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

// StatsReporter is what a transport made by Factory implements besides the contract.
type StatsReporter interface {
	// Stats returns the counters since New. Safe for concurrent use; the numbers are not of one
	// instant.
	Stats() Stats
}

// Stats are the counters of one transport.
type Stats struct {
	transportkit.Stats
	// ConnectionsCut counts connections that ended with an error while they had work.
	ConnectionsCut uint64
	// Untrusted counts connections that were closed because the peer's certificate ended or the
	// authority was replaced, Overflow those closed because too many were open.
	Untrusted, Overflow uint64
	// Reloads counts how often the certificate files were taken up anew.
	Reloads uint64
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
	// Datagram is about how many bytes fit into one packet, as far as the discovery of the path's
	// limit has come; 0 before the handshake has ended.
	Datagram int
	// Window is the congestion window in bytes, RTT the smoothed and MinRTT the least round trip.
	Window      uint64
	RTT, MinRTT time.Duration
	// Packets that this side sent, and how many of them were lost.
	PacketsSent, PacketsLost uint64
	BytesSent, BytesReceived uint64
}

// counters is Stats while it counts.
type counters struct {
	transportkit.Counters
	connsCut, untrusted, overflow atomic.Uint64
}

// refuse counts a refusal; ReasonNone is none.
func (c *counters) refuse(r wire.Reason) { c.Refuse(uint8(r)) }
