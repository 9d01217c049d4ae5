package shm

import (
	"sync/atomic"

	"github.com/mooncake-go/mooncake/plugins/transport-shm/internal/wire"
)

// StatsReporter is what a transport made by Factory implements besides the contract.
type StatsReporter interface {
	// Stats returns the counters since New. Safe for concurrent use; the numbers are not
	// of one instant.
	Stats() Stats
}

// Stats are the counters of one transport. All but the gauges only grow.
type Stats struct {
	// Operations submitted by this side, by how they ended, and the bytes of those that
	// ended OK.
	OpsOK, OpsFailed        uint64
	BytesRead, BytesWritten uint64
	// Slices counts copies; one operation is one or more. Batches counts how often a worker
	// took work: small operations are taken several at a time.
	Slices, Batches uint64
	// Dials and DialsFailed count attempts to connect, Accepted connections that said hello.
	Dials, DialsFailed, Accepted uint64
	// Attached counts regions of peers that were mapped, Granted regions of this process that
	// peers were given, Revoked those that were taken back.
	Attached, Granted, Revoked uint64
	// Gauges: connections, regions of peers that are mapped and their bytes, and regions of
	// this process that peers have.
	ConnectionsOut, ConnectionsIn int64
	Mappings, MappedBytes         int64
	Grants                        int64
	// Refused counts what this side refused its peers, by reason.
	Refused map[string]uint64
}

// counters is Stats while it counts.
type counters struct {
	opsOK, opsFailed             atomic.Uint64
	bytesRead, bytesWritten      atomic.Uint64
	slices, batches              atomic.Uint64
	dials, dialsFailed, accepted atomic.Uint64
	attached, granted, revoked   atomic.Uint64
	connsOut, connsIn            atomic.Int64
	mappings, mappedBytes        atomic.Int64
	grants                       atomic.Int64
	refused                      [wire.NumReasons]atomic.Uint64
}

func (c *counters) refuse(r wire.Reason) {
	if r > wire.ReasonNone && r < wire.NumReasons {
		c.refused[r].Add(1)
	}
}

func (c *counters) snapshot() Stats {
	s := Stats{
		OpsOK: c.opsOK.Load(), OpsFailed: c.opsFailed.Load(),
		BytesRead: c.bytesRead.Load(), BytesWritten: c.bytesWritten.Load(),
		Slices: c.slices.Load(), Batches: c.batches.Load(),
		Dials: c.dials.Load(), DialsFailed: c.dialsFailed.Load(), Accepted: c.accepted.Load(),
		Attached: c.attached.Load(), Granted: c.granted.Load(), Revoked: c.revoked.Load(),
		ConnectionsOut: c.connsOut.Load(), ConnectionsIn: c.connsIn.Load(),
		Mappings: c.mappings.Load(), MappedBytes: c.mappedBytes.Load(), Grants: c.grants.Load(),
		Refused: map[string]uint64{},
	}
	for r := wire.ReasonNone + 1; r < wire.NumReasons; r++ {
		if n := c.refused[r].Load(); n > 0 {
			s.Refused[r.Info().Label] = n
		}
	}
	return s
}
