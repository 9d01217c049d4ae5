package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

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

// validateTrust checks that the settings of certificates make sense together. The files
// are looked at when the transport starts.
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
		return fmt.Errorf("insecure_dev asks no peer who it is; it cannot be combined with ca, cert, key or peer_names")
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
