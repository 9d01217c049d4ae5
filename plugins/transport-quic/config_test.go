package quic

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func TestConfigRefuses(t *testing.T) {
	require.NoError(t, plugin.Validate(DefaultConfig()))
	for want, change := range map[string]func(*Config){
		"cert and key is not":        func(c *Config) { c.CA = "x" },
		"ca is not":                  func(c *Config) { c.Cert, c.Key = "x", "y" },
		"cannot be combined":         func(c *Config) { c.InsecureDev, c.CA, c.Cert, c.Key = true, "a", "b", "c" },
		"combined with ca":           func(c *Config) { c.InsecureDev, c.PeerNames = true, []string{"a"} },
		`peer_names "*"`:             func(c *Config) { c.PeerNames = []string{"*"} },
		`peer_names ""`:              func(c *Config) { c.PeerNames = []string{""} },
		`peer_names "a.*.b"`:         func(c *Config) { c.PeerNames = []string{"a.*.b"} },
		"stall_timeout is 4s":        func(c *Config) { c.StallTimeout = plugin.Duration(4e9) },
		"port is 65536":              func(c *Config) { c.Port = 65536 },
		"port_max is 5":              func(c *Config) { c.PortMax = 5 },
		"connections_per_peer is 65": func(c *Config) { c.ConnectionsPerPeer = 65 },
		"connections_lossy is 65":    func(c *Config) { c.ConnectionsLossy = 65 },
		"streams_per_connection":     func(c *Config) { c.StreamsPerConnection = 0 },
		"slice_bytes is 1":           func(c *Config) { c.SliceBytes = 1 },
		"packet_size is 1453":        func(c *Config) { c.PacketSize = 1453 },
		"connection_window":          func(c *Config) { c.ConnectionWindow = 1 },
		"reload_every":               func(c *Config) { c.ReloadEvery = 0 },
		"expiry_warning":             func(c *Config) { c.ExpiryWarning = -1 },
		`advertise "a:b:c"`:          func(c *Config) { c.Advertise = []string{"a:b:c"} },
	} {
		c := DefaultConfig()
		change(c)
		require.ErrorContains(t, plugin.Validate(c), want)
	}
}

// TestFlow: what is in flight stays within its bound, which moves with how long chunks take.
func TestFlow(t *testing.T) {
	var f flow
	now, rtt := newClock(), 50*ms
	size := 128 << 10
	for f.fits(size, 1000) {
		f.began(size)
	}
	require.EqualValues(t, flowStart, f.bytes)
	for range 8 {
		f.ended(size, 100*ms, rtt, now())
		f.began(size)
	}
	require.Greater(t, f.most(), int64(flowStart), "quick chunks: more in flight")
	for range 200 {
		f.ended(size, 1000*ms, rtt, now())
		f.began(size)
	}
	require.EqualValues(t, flowLeast, f.most(), "slow chunks: as little as keeps the connection busy")
	require.False(t, f.fits(size, 1000))
	for f.requests > 0 {
		f.ended(size, 0, rtt, now())
	}
	require.Zero(t, f.bytes)
	require.True(t, f.fits(64<<20, 1), "one chunk alone may be of any size")
	require.False(t, f.fits(1, 0))
}

const ms = time.Millisecond

// newClock returns a clock that is a second later each time.
func newClock() func() time.Time {
	t := time.Now()
	return func() time.Time { t = t.Add(time.Second); return t }
}
