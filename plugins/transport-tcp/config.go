package tcp

import (
	"fmt"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

// Config holds the settings of the TCP transport. Sizes are bytes.
type Config struct {
	transportkit.Addresses
	// ConnectionsPerPeer bounds the pool of each path. Connections are made as they are needed.
	ConnectionsPerPeer int `json:"connections_per_peer"`
	// ConnectionsFar is what takes the place of ConnectionsPerPeer, where it is more, for a peer
	// with round trips of 5 ms or more, while its link is not full. With TLS it takes that place for
	// every peer, but for one connection at most for every two processors: records are sealed and
	// opened by the goroutines of their connection.
	ConnectionsFar int `json:"connections_far"`
	// MaxConnections bounds the accepted connections, MaxConnectionsPerPeer those of one peer.
	MaxConnections        int `json:"max_connections"`
	MaxConnectionsPerPeer int `json:"max_connections_per_peer"`
	// SliceBytes is the size of the chunks that an operation is moved in.
	SliceBytes int `json:"slice_bytes"`
	// MaxInflightBytes and MaxInflightOps are how much a path accepts before Submit returns a short
	// count. An operation larger than MaxInflightBytes is accepted alone.
	MaxInflightBytes int64 `json:"max_inflight_bytes"`
	MaxInflightOps   int   `json:"max_inflight_ops"`
	// OpTimeout bounds an operation without a deadline of its own, and how long this side works on
	// one request of a peer, beside a second for each 8 KiB of it.
	OpTimeout plugin.Duration `json:"op_timeout"`
	// DialTimeout bounds one attempt to connect, hello included; the addresses of the peer share
	// it. It is also how long operations wait for a peer that cannot be reached.
	DialTimeout plugin.Duration `json:"dial_timeout"`
	// HandshakeTimeout bounds how long an accepted connection may take to say hello.
	HandshakeTimeout plugin.Duration `json:"handshake_timeout"`
	// StallTimeout closes a connection that has work and makes no progress for so long.
	StallTimeout plugin.Duration `json:"stall_timeout"`
	// IdleTimeout closes a connection that has had no work for so long.
	IdleTimeout plugin.Duration `json:"idle_timeout"`
	// SendBuffer and ReceiveBuffer size the sockets; 0 leaves it to the kernel, but for the send
	// buffer between processes of one machine, which is 512 KiB then.
	SendBuffer    int `json:"send_buffer"`
	ReceiveBuffer int `json:"receive_buffer"`
	// Upstream serves and dials nodes of kvcache-ai/Mooncake too. Their protocol knows no keys:
	// any process that reaches the port may use every region that is open to peers. nil is true where
	// the security mode of the process is off, and false otherwise.
	Upstream *bool `json:"upstream"`
	// UpstreamProto is the version to speak to such a node: 1, or 0 or 2 for the one that it
	// publishes.
	UpstreamProto int `json:"upstream_proto"`
	// UpstreamStatusTimeout bounds how long such a node may take to answer, counted from when the
	// request is out, and to go on with its answer.
	UpstreamStatusTimeout plugin.Duration `json:"upstream_status_timeout"`
	// MaxUpstreamConnections bounds the accepted connections of such nodes, within MaxConnections.
	MaxUpstreamConnections int `json:"max_upstream_connections"`
	// BusyPoll is how long a wait for a peer that owes something polls for its bytes before it
	// sleeps, see package busypoll; 0 for what is usual in the process, 200 us, below 0 to sleep at
	// once.
	BusyPoll plugin.Duration `json:"busy_poll,omitempty"`
	// Checksum asks for a CRC32C of each payload. It is used where either side asks.
	Checksum bool `json:"checksum"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() *Config {
	return &Config{
		ConnectionsPerPeer:    4,
		ConnectionsFar:        16,
		MaxConnections:        4096,
		MaxConnectionsPerPeer: 64,
		SliceBytes:            1 << 20,
		MaxInflightBytes:      64 << 20,
		MaxInflightOps:        4096,
		OpTimeout:             plugin.Duration(30 * time.Second),
		DialTimeout:           plugin.Duration(3 * time.Second),
		HandshakeTimeout:      plugin.Duration(5 * time.Second),
		StallTimeout:          plugin.Duration(10 * time.Second),
		IdleTimeout:           plugin.Duration(5 * time.Minute),

		UpstreamStatusTimeout:  plugin.Duration(30 * time.Second),
		MaxUpstreamConnections: 1024,
	}
}

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
func (c *Config) Validate() error {
	err := transportkit.CheckBounds([]transportkit.Bound{
		{Name: "connections_per_peer", Value: int64(c.ConnectionsPerPeer), Low: 1, High: 64},
		{Name: "connections_far", Value: int64(c.ConnectionsFar), Low: 1, High: 64},
		{Name: "max_connections", Value: int64(c.MaxConnections), Low: 1, High: 65536},
		{Name: "max_connections_per_peer", Value: int64(c.MaxConnectionsPerPeer), Low: 1, High: 65536},
		{Name: "slice_bytes", Value: int64(c.SliceBytes), Low: frame.MinSlice, High: frame.MaxSlice},
		{Name: "max_inflight_bytes", Value: c.MaxInflightBytes, Low: frame.MinSlice, High: 1 << 50},
		{Name: "max_inflight_ops", Value: int64(c.MaxInflightOps), Low: 1, High: 1 << 20},
		{Name: "send_buffer", Value: int64(c.SendBuffer), High: 1 << 30},
		{Name: "receive_buffer", Value: int64(c.ReceiveBuffer), High: 1 << 30},
		{Name: "upstream_proto", Value: int64(c.UpstreamProto), High: 2},
		{Name: "max_upstream_connections", Value: int64(c.MaxUpstreamConnections), Low: 1, High: 65536},
	}...)
	if err != nil {
		return err
	}
	err = transportkit.CheckTimeouts([]transportkit.Timeout{
		{Name: "op_timeout", Value: c.OpTimeout}, {Name: "dial_timeout", Value: c.DialTimeout},
		{Name: "handshake_timeout", Value: c.HandshakeTimeout}, {Name: "stall_timeout", Value: c.StallTimeout},
		{Name: "idle_timeout", Value: c.IdleTimeout}, {Name: "upstream_status_timeout", Value: c.UpstreamStatusTimeout},
	}...)
	if err != nil {
		return err
	}
	if c.BusyPoll > plugin.Duration(10*time.Millisecond) {
		return fmt.Errorf("busy_poll is %s, must be at most 10ms", c.BusyPoll)
	}
	return c.Addresses.Validate()
}
