// Package config holds the settings of the QUIC transport.
package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

// Config holds the settings of the QUIC transport. Sizes are bytes.
type Config struct {
	// CA, Cert and Key are PEM files: the authorities that peers must be signed by, the certificate
	// of this node with what leads to its authority, and its private key.
	CA   string `json:"ca"`
	Cert string `json:"cert"`
	Key  string `json:"key"`
	// PeerNames lists names and addresses, one of which a peer's certificate must be for. Empty:
	// any certificate of the authority; the dialling side asks for one that is for the address it
	// dialled.
	PeerNames []string `json:"peer_names"`
	// InsecureDev makes a certificate at start and does not verify the identity of peers.
	InsecureDev bool `json:"insecure_dev"`
	// ExpiryWarning is how long before the end of the certificate warnings begin.
	ExpiryWarning plugin.Duration `json:"expiry_warning"`
	// ReloadEvery is how often the three files are looked at.
	ReloadEvery plugin.Duration `json:"reload_every"`
	transportkit.Addresses
	// ConnectionsPerPeer bounds the connections of each path, each with a congestion window of its
	// own. They are made as they are needed.
	ConnectionsPerPeer int `json:"connections_per_peer"`
	// ConnectionsLossy is what takes the place of ConnectionsPerPeer, where it is more, while more
	// than 0.2 % of the packets are lost on the way.
	ConnectionsLossy int `json:"connections_lossy"`
	// StreamsPerConnection bounds the chunks in flight on one connection, on both sides.
	StreamsPerConnection int `json:"streams_per_connection"`
	// MaxConnections bounds the accepted connections, MaxConnectionsPerPeer those of one address
	// with one certificate.
	MaxConnections        int `json:"max_connections"`
	MaxConnectionsPerPeer int `json:"max_connections_per_peer"`
	// SliceBytes is the size of the chunks in which an operation is moved.
	SliceBytes int `json:"slice_bytes"`
	// MaxInflightBytes and MaxInflightOps are how much a path accepts before Submit returns a short
	// count. An operation larger than MaxInflightBytes is accepted alone.
	MaxInflightBytes int64 `json:"max_inflight_bytes"`
	MaxInflightOps   int   `json:"max_inflight_ops"`
	// OpTimeout bounds an operation without a deadline of its own, and how long this side works on
	// one request of a peer.
	OpTimeout plugin.Duration `json:"op_timeout"`
	// DialTimeout bounds one attempt to connect; the addresses of the peer share it. It is also how
	// long operations wait for a peer that cannot be reached.
	DialTimeout plugin.Duration `json:"dial_timeout"`
	// StallTimeout closes a connection whose peer sends nothing for so long, and ends a request of
	// a peer that makes no progress. A third of it is the keep-alive.
	StallTimeout plugin.Duration `json:"stall_timeout"`
	// IdleTimeout closes a connection that has had no work for so long.
	IdleTimeout plugin.Duration `json:"idle_timeout"`
	// StreamWindow and ConnectionWindow are how much a peer may send before it is taken.
	StreamWindow     int `json:"stream_window"`
	ConnectionWindow int `json:"connection_window"`
	// SocketBuffer is the size of the send and receive buffers of each UDP socket.
	SocketBuffer int `json:"socket_buffer"`
	// PacketSize is the first size of a datagram's payload, 0 for quic-go's own.
	PacketSize int `json:"packet_size"`
}

// Default returns the defaults, which have no certificates: a transport made from them does not
// start.
func Default() *Config {
	return &Config{
		ExpiryWarning:         plugin.Duration(7 * 24 * time.Hour),
		ReloadEvery:           plugin.Duration(10 * time.Second),
		ConnectionsPerPeer:    8,
		ConnectionsLossy:      32,
		StreamsPerConnection:  32,
		MaxConnections:        4096,
		MaxConnectionsPerPeer: 256,
		SliceBytes:            128 << 10,
		MaxInflightBytes:      128 << 20,
		MaxInflightOps:        4096,
		OpTimeout:             plugin.Duration(30 * time.Second),
		DialTimeout:           plugin.Duration(5 * time.Second),
		StallTimeout:          plugin.Duration(10 * time.Second),
		IdleTimeout:           plugin.Duration(5 * time.Minute),
		StreamWindow:          8 << 20,
		ConnectionWindow:      64 << 20,
		SocketBuffer:          8 << 20,
	}
}

// Settings is a Config with its durations in the form that the rest of the package uses.
type Settings struct {
	Config
	OpTimeout, DialTimeout, StallTimeout, IdleTimeout, ExpiryWarning, ReloadEvery time.Duration
}

// Of returns the settings of a configuration.
func Of(c Config) Settings {
	return Settings{
		Config:        c,
		OpTimeout:     time.Duration(c.OpTimeout),
		DialTimeout:   time.Duration(c.DialTimeout),
		StallTimeout:  time.Duration(c.StallTimeout),
		IdleTimeout:   time.Duration(c.IdleTimeout),
		ExpiryWarning: time.Duration(c.ExpiryWarning),
		ReloadEvery:   time.Duration(c.ReloadEvery),
	}
}

// minSlice is the least SliceBytes; the most is wire.MaxSlice.
const minSlice = 4 << 10

const (
	maxPeerNames = 64
	// leastStall is the shortest silence that QUIC lets peers agree on.
	leastStall = 5 * time.Second
)

// Validate implements plugin.Config.
func (c *Config) Validate() error {
	err := transportkit.CheckBounds([]transportkit.Bound{
		{Name: "connections_per_peer", Value: int64(c.ConnectionsPerPeer), Low: 1, High: 64},
		{Name: "connections_lossy", Value: int64(c.ConnectionsLossy), High: 64},
		{Name: "streams_per_connection", Value: int64(c.StreamsPerConnection), Low: 1, High: 256},
		{Name: "max_connections", Value: int64(c.MaxConnections), Low: 1, High: 65536},
		{Name: "max_connections_per_peer", Value: int64(c.MaxConnectionsPerPeer), Low: 1, High: 65536},
		{Name: "slice_bytes", Value: int64(c.SliceBytes), Low: minSlice, High: wire.MaxSlice},
		{Name: "max_inflight_bytes", Value: c.MaxInflightBytes, Low: minSlice, High: 1 << 50},
		{Name: "max_inflight_ops", Value: int64(c.MaxInflightOps), Low: 1, High: 1 << 20},
		{Name: "stream_window", Value: int64(c.StreamWindow), Low: 64 << 10, High: 1 << 30},
		{Name: "connection_window", Value: int64(c.ConnectionWindow), Low: 64 << 10, High: 1 << 30},
		{Name: "socket_buffer", Value: int64(c.SocketBuffer), High: 1 << 30},
	}...)
	if err != nil {
		return err
	}
	if c.PacketSize != 0 && (c.PacketSize < 1200 || c.PacketSize > 1452) {
		return fmt.Errorf("packet_size is %d, must be 1200 to 1452, or 0", c.PacketSize)
	}
	err = transportkit.CheckTimeouts([]transportkit.Timeout{
		{Name: "op_timeout", Value: c.OpTimeout}, {Name: "dial_timeout", Value: c.DialTimeout},
		{Name: "stall_timeout", Value: c.StallTimeout, Low: leastStall},
		{Name: "idle_timeout", Value: c.IdleTimeout}, {Name: "reload_every", Value: c.ReloadEvery},
	}...)
	if err != nil {
		return err
	}
	if c.ExpiryWarning < 0 {
		return fmt.Errorf("expiry_warning is %s, must not be negative", c.ExpiryWarning)
	}
	if err := c.Addresses.Validate(); err != nil {
		return err
	}
	return c.validateTrust()
}

// validateTrust checks that the settings of certificates make sense together. The files are looked
// at when the transport starts.
func (c *Config) validateTrust() error {
	given, missing := []string(nil), []string(nil)
	for _, f := range []struct{ name, path string }{{"ca", c.CA}, {"cert", c.Cert}, {"key", c.Key}} {
		if f.path == "" {
			missing = append(missing, f.name)
		} else {
			given = append(given, f.name)
		}
	}
	if len(given) > 0 && len(missing) > 0 {
		return fmt.Errorf("%s is set and %s is not; all of ca, cert and key are needed", strings.Join(given, " and "), strings.Join(missing, " and "))
	}
	if c.InsecureDev && (len(given) > 0 || len(c.PeerNames) > 0) {
		return fmt.Errorf("insecure_dev does not verify the identity of peers; it cannot be combined with ca, cert, key or peer_names")
	}
	if len(c.PeerNames) > maxPeerNames {
		return fmt.Errorf("peer_names has %d names, must be at most %d", len(c.PeerNames), maxPeerNames)
	}
	for _, n := range c.PeerNames {
		if bare := strings.TrimPrefix(n, "*."); bare == "" || strings.ContainsAny(bare, "* \t/") {
			return fmt.Errorf("peer_names %q is not a host name, an IP address or '*.' and a domain", n)
		}
	}
	return nil
}
