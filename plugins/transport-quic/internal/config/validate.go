package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/plugin"
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
	for _, f := range []struct {
		name     string
		val      int64
		low, top int64
	}{
		{"port", int64(c.Port), 0, 65535},
		{"port_max", int64(c.PortMax), 0, 65535},
		{"connections_per_peer", int64(c.ConnectionsPerPeer), 1, 64},
		{"connections_lossy", int64(c.ConnectionsLossy), 0, 64},
		{"streams_per_connection", int64(c.StreamsPerConnection), 1, 256},
		{"max_connections", int64(c.MaxConnections), 1, 65536},
		{"max_connections_per_peer", int64(c.MaxConnectionsPerPeer), 1, 65536},
		{"slice_bytes", int64(c.SliceBytes), minSlice, wire.MaxSlice},
		{"max_inflight_bytes", c.MaxInflightBytes, minSlice, 1 << 50},
		{"max_inflight_ops", int64(c.MaxInflightOps), 1, 1 << 20},
		{"stream_window", int64(c.StreamWindow), 64 << 10, 1 << 30},
		{"connection_window", int64(c.ConnectionWindow), 64 << 10, 1 << 30},
		{"socket_buffer", int64(c.SocketBuffer), 0, 1 << 30},
	} {
		if f.val < f.low || f.val > f.top {
			return fmt.Errorf("%s is %d, must be %d to %d", f.name, f.val, f.low, f.top)
		}
	}
	if c.PacketSize != 0 && (c.PacketSize < 1200 || c.PacketSize > 1452) {
		return fmt.Errorf("packet_size is %d, must be 1200 to 1452, or 0", c.PacketSize)
	}
	for _, d := range []struct {
		name string
		val  plugin.Duration
		low  time.Duration
	}{
		{"op_timeout", c.OpTimeout, time.Millisecond},
		{"dial_timeout", c.DialTimeout, time.Millisecond},
		{"stall_timeout", c.StallTimeout, leastStall},
		{"idle_timeout", c.IdleTimeout, time.Millisecond},
		{"reload_every", c.ReloadEvery, time.Millisecond},
	} {
		if time.Duration(d.val) < d.low || d.val > plugin.Duration(24*time.Hour) {
			return fmt.Errorf("%s is %s, must be %s to 24h", d.name, d.val, d.low)
		}
	}
	if c.ExpiryWarning < 0 {
		return fmt.Errorf("expiry_warning is %s, must not be negative", c.ExpiryWarning)
	}
	if err := c.Addresses().Validate(); err != nil {
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

// Addresses returns the settings of the listener.
func (c *Config) Addresses() transportkit.Addresses {
	return transportkit.Addresses{Host: c.Host, Port: c.Port, PortMax: c.PortMax, Advertise: c.Advertise}
}
