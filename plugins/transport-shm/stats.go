package shm

import (
	"sync/atomic"

	"github.com/mooncake-go/mooncake/plugins/transport-shm/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

// StatsReporter is what a transport made by Factory implements besides the contract.
type StatsReporter interface {
	// Stats returns the counters since New. Safe for concurrent use; the numbers are not of one
	// instant.
	Stats() Stats
}

// Stats are the counters of one transport. All but the gauges only grow.
type Stats struct {
	transportkit.Stats
	// Slices counts copies; one operation is one or more. Batches counts how often a worker took
	// work: small operations are taken several at a time.
	Slices, Batches uint64
	// Attached counts regions of peers that were mapped, Granted regions of this process that peers
	// were given, Revoked those that were taken back.
	Attached, Granted, Revoked uint64
	// Gauges: connections, regions of peers that are mapped and their bytes, and regions of this
	// process that peers have.
	ConnectionsOut, ConnectionsIn int64
	Mappings, MappedBytes         int64
	Grants                        int64
}

// counters is Stats while it counts.
type counters struct {
	transportkit.Counters
	slices, batches            atomic.Uint64
	attached, granted, revoked atomic.Uint64
	connsOut, connsIn          atomic.Int64
	mappings, mappedBytes      atomic.Int64
	grants                     atomic.Int64
}

func (c *counters) refuse(r wire.Reason) { c.Refuse(uint8(r)) }

func (c *counters) snapshot() Stats {
	return Stats{
		Stats: c.Stats(wire.Refusals), Slices: c.slices.Load(), Batches: c.batches.Load(),
		Attached: c.attached.Load(), Granted: c.granted.Load(), Revoked: c.revoked.Load(),
		ConnectionsOut: c.connsOut.Load(), ConnectionsIn: c.connsIn.Load(),
		Mappings: c.mappings.Load(), MappedBytes: c.mappedBytes.Load(), Grants: c.grants.Load(),
	}
}
