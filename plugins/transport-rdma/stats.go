package rdma

import (
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// StatsReporter is what a transport made by Factory implements besides the contract.
type StatsReporter interface {
	// Stats returns the counters since New. Safe for concurrent use; the numbers are not
	// of one instant.
	Stats() Stats
}

// Stats are the counters of one transport. All but Regions, ConnectionsOut, ConnectionsIn
// and what is in the lists only grow.
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
type DeviceStats struct {
	Name, GID string
	GIDIndex  int
	MTU       int
	NUMA      int
	Speed     uint64 // bits per second
	Up        bool
	// Why says why it is not up.
	Why string
}

// RailStats are the counters of a pair of devices, over all paths to one peer, since the
// first of them was dialled.
type RailStats struct {
	Local, Remote, Peer     string
	Up                      bool
	BytesRead, BytesWritten uint64
	// Requests counts work requests that ended well, Failures losses of the connection and
	// failed attempts to make one.
	Requests, Failures uint64
	// Connections is 1 while there is one, more while old ones end.
	Connections int64
	// Waiting is how many bytes are queued or under way.
	Waiting int64
	// LastError is the latest failure, empty once the rail works again.
	LastError string
}

// counters is Stats while it counts.
type counters struct {
	opsOK, opsFailed, opsQuarantined     atomic.Uint64
	dials, dialsFailed, accepts, refused atomic.Uint64
	foreign, overflow, events            atomic.Uint64
	regions                              atomic.Int64
}

// linkCounters is RailStats while it counts.
type linkCounters struct {
	read, written, requests, failures atomic.Uint64
	conns                             atomic.Int64
}

func (c *linkCounters) moved(kind transport.OpKind, n int) {
	c.requests.Add(1)
	if kind == transport.Read {
		c.read.Add(uint64(n))
	} else {
		c.written.Add(uint64(n))
	}
}

// Stats implements StatsReporter.
func (n *node) Stats() Stats {
	c := &n.stats
	s := Stats{
		OpsOK: c.opsOK.Load(), OpsFailed: c.opsFailed.Load(), OpsQuarantined: c.opsQuarantined.Load(),
		Dials: c.dials.Load(), DialsFailed: c.dialsFailed.Load(), Accepts: c.accepts.Load(), Refused: c.refused.Load(),
		Foreign: c.foreign.Load(), Overflow: c.overflow.Load(), Events: c.events.Load(), Regions: c.regions.Load(),
	}
	n.mu.Lock()
	devices := n.devices
	if n.life.New() {
		devices = nil // Start may be at work.
	}
	links := make([]*link, 0, len(n.links))
	for _, k := range n.links {
		links = append(links, k)
	}
	n.mu.Unlock()
	for _, d := range devices {
		s.Devices = append(s.Devices, d.stats(&s))
	}
	now := time.Now()
	for _, k := range links {
		r := RailStats{
			Local: k.dev.name, Remote: k.remote.Name, Peer: k.where, Up: k.up(now),
			BytesRead: k.stats.read.Load(), BytesWritten: k.stats.written.Load(), Requests: k.stats.requests.Load(),
			Failures: k.stats.failures.Load(), Connections: k.stats.conns.Load(), Waiting: k.load.Load(),
		}
		if err := k.latest(); err != nil {
			r.LastError = err.Error()
		}
		s.Rails = append(s.Rails, r)
	}
	return s
}

func (d *device) stats(s *Stats) DeviceStats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.ConnectionsOut += d.conns.Len()
	s.ConnectionsIn += len(d.accepted)
	out := DeviceStats{
		Name: d.name, GID: d.addr.GID.String(), GIDIndex: d.addr.Index, MTU: d.mtu(), NUMA: d.numa, Speed: d.port.Speed, Up: d.up.Load(),
	}
	if d.why != nil {
		out.Why = d.why.Error()
	}
	return out
}
