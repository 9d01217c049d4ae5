package rdma

import (
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/device"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/rail"
)

// StatsReporter is what a transport made by Factory implements besides the contract.
type StatsReporter interface {
	// Stats returns the counters since New. Safe for concurrent use; the numbers are not
	// of one instant.
	Stats() Stats
}

var _ StatsReporter = (*node)(nil)

// Stats are the counters of one transport. All but Regions, ConnectionsOut, ConnectionsIn
// and the entries of the lists only grow.
type Stats struct {
	// Operations submitted by this side, by how they ended.
	OpsOK, OpsFailed, OpsQuarantined uint64
	// Dials and DialsFailed count attempts to connect, Accepts connections of peers and
	// Refused requests for one that were refused.
	Dials, DialsFailed, Accepts, Refused uint64
	// Foreign counts bootstrap connections that were not ours, Overflow those closed because
	// too many had not said yet what they wanted.
	Foreign, Overflow uint64
	// Events counts asynchronous events of all devices.
	Events uint64
	// Regions is how many are registered now.
	Regions int64
	// ConnectionsOut and ConnectionsIn are the connections of all devices now.
	ConnectionsOut, ConnectionsIn int
	Devices                       []DeviceStats
	Rails                         []RailStats
}

// DeviceStats tell how one device is.
type DeviceStats = device.Stats

// RailStats are the counters of a pair of devices.
type RailStats = rail.Stats

// Stats implements StatsReporter.
func (n *node) Stats() Stats {
	env := &n.env
	s := Stats{
		OpsOK: env.OpsOK.Load(), OpsFailed: env.OpsFailed.Load(), OpsQuarantined: env.OpsQuarantined.Load(),
		Dials: env.Dials.Load(), DialsFailed: env.DialsFailed.Load(), Accepts: env.Accepts.Load(), Refused: env.Refused.Load(),
		Foreign: env.Foreign.Load(), Overflow: env.Overflow.Load(), Events: env.Events.Load(),
	}
	n.mu.Lock()
	fresh := n.life.New()
	n.mu.Unlock()
	if fresh || n.regions == nil {
		return s // Start may be in progress, or has failed.
	}
	s.Regions = n.regions.Count()
	for _, d := range n.devices {
		s.ConnectionsOut += d.out.Len()
		s.ConnectionsIn += len(d.in.All())
		s.Devices = append(s.Devices, d.Stats())
	}
	s.Rails = n.rails.Stats()
	return s
}
