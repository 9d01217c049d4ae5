package tcp

import (
	"time"

	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

// Config holds the settings of the TCP transport. Sizes are bytes.
type Config struct {
	transportkit.Addresses
	ConnectionsPerPeer int `json:"connections_per_peer" default:"4" range:"1..64" doc:"most connections of one path; they are made as they are needed"`
	// ConnectionsFar is what takes the place of ConnectionsPerPeer, where it is more, for a peer
	// with round trips of 5 ms or more, while its link is not full. With TLS it takes that place for
	// every peer, but for one connection at most for every two processors: records are sealed and
	// opened by the goroutines of their connection.
	ConnectionsFar        int `json:"connections_far" default:"16" range:"1..64" doc:"connections to a peer with round trips of 5 ms or more, while its link is not full; with TLS to any peer, at most one for every two processors"`
	MaxConnections        int `json:"max_connections" default:"4096" range:"1..65536" doc:"accepted connections in all"`
	MaxConnectionsPerPeer int `json:"max_connections_per_peer" default:"64" range:"1..65536" doc:"accepted connections of one peer"`
	SliceBytes            int `json:"slice_bytes" default:"1MiB" range:"4KiB..64MiB" doc:"an operation is moved in pieces of this size"`
	// MaxInflightBytes and MaxInflightOps are how much a path accepts before Submit returns a short
	// count. An operation larger than MaxInflightBytes is accepted alone.
	MaxInflightBytes int64 `json:"max_inflight_bytes" default:"64MiB" range:"4KiB..1PiB" doc:"bytes in flight on one path before Submit accepts no more"`
	MaxInflightOps   int   `json:"max_inflight_ops" default:"4096" range:"1..1048576" doc:"operations not yet reaped on one path before Submit accepts no more"`
	// OpTimeout bounds an operation without a deadline of its own, and how long this side works on
	// one request of a peer, beside a second for each 8 KiB of it.
	OpTimeout        plugin.Duration `json:"op_timeout" default:"30s" range:"1ms..24h" doc:"limit of an operation without a deadline of its own"`
	DialTimeout      plugin.Duration `json:"dial_timeout" default:"3s" range:"1ms..24h" doc:"limit of one attempt to connect, hello included, and of waiting for a peer that cannot be reached"`
	HandshakeTimeout plugin.Duration `json:"handshake_timeout" default:"5s" range:"1ms..24h" doc:"limit for an accepted connection to say hello"`
	StallTimeout     plugin.Duration `json:"stall_timeout" default:"10s" range:"1ms..24h" doc:"a connection with work and no progress for this long is closed"`
	IdleTimeout      plugin.Duration `json:"idle_timeout" default:"5m" range:"1ms..24h" doc:"a connection without work for this long is closed"`
	SendBuffer       int             `json:"send_buffer" range:"0..1GiB" doc:"socket send buffer in bytes; 0 for the kernel's own choice, and 512 KiB between processes of one machine"`
	ReceiveBuffer    int             `json:"receive_buffer" range:"0..1GiB" doc:"socket receive buffer in bytes; 0 for the kernel's own choice"`
	// Upstream serves and dials nodes of kvcache-ai/Mooncake too. Their protocol knows no keys:
	// any process that reaches the port may use every region that is open to peers. nil is true where
	// the security mode of the process is off, and false otherwise.
	Upstream               *bool           `json:"upstream" doc:"true unless security.mode is set: serve and dial nodes of kvcache-ai/Mooncake too; their protocol has no keys: any client that reaches the port may use every region that is open to peers"`
	UpstreamProto          int             `json:"upstream_proto" range:"0..2" doc:"version to speak to such nodes: 0 or 2 for what they publish, 1 for version 1"`
	UpstreamStatusTimeout  plugin.Duration `json:"upstream_status_timeout" default:"30s" range:"1ms..24h" doc:"limit for such a node to answer a request that is out"`
	MaxUpstreamConnections int             `json:"max_upstream_connections" default:"1024" range:"1..65536" doc:"accepted connections of such nodes, within max_connections"`
	// BusyPoll is how long a wait for a peer that owes something polls for its bytes before it
	// sleeps, see package busypoll; 0 for what is usual in the process, 200 us, below 0 to sleep at
	// once.
	BusyPoll plugin.Duration `json:"busy_poll,omitempty" range:"..10ms" doc:"how long a wait for a peer that owes something looks for its bytes before it sleeps; 0s for the net.busy_poll of the process, 200us, below 0 to sleep at once"`
	Checksum bool            `json:"checksum" doc:"CRC32C for every payload; used where either side asks for it"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() *Config { return plugin.Defaults[Config]() }

// settings is a Config with its durations in the form that the rest of the package uses.
type settings struct {
	Config
	OpTimeout, DialTimeout, HandshakeTimeout, StallTimeout, IdleTimeout, UpstreamStatusTimeout, BusyPoll time.Duration
	Upstream                                                                                             bool
}

func settingsOf(c Config) settings {
	return settings{
		Config:           c,
		OpTimeout:        time.Duration(c.OpTimeout),
		DialTimeout:      time.Duration(c.DialTimeout),
		HandshakeTimeout: time.Duration(c.HandshakeTimeout),
		StallTimeout:     time.Duration(c.StallTimeout),
		IdleTimeout:      time.Duration(c.IdleTimeout),

		UpstreamStatusTimeout: time.Duration(c.UpstreamStatusTimeout),
		BusyPoll:              time.Duration(c.BusyPoll),
		Upstream:              c.Upstream == nil || *c.Upstream,
	}
}

// sealing returns how many connections a path over TLS may have, on so many processors.
func (s *settings) sealing(procs int) int {
	return max(s.ConnectionsPerPeer, min(s.ConnectionsFar, procs/2))
}

// leastRate is what the slowest link moves that is of use, in bytes per second. A peer that sends a
// byte now and then is not waited for longer than that.
const leastRate = 8 << 10

// due is when this side gives up on a request of a peer that begins now and has n bytes.
func (s *settings) due(n int) time.Time {
	return time.Now().Add(s.OpTimeout + time.Duration(n)*time.Second/leastRate)
}

// Validate implements plugin.Config.
func (c *Config) Validate() error { return c.Addresses.Validate() }
