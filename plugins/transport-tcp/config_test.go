package tcp

import (
	"context"
	"encoding/json"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func TestConfigRefuses(t *testing.T) {
	require.NoError(t, plugin.Validate(DefaultConfig()))
	for want, change := range map[string]func(*Config){
		"port is 65536":                 func(c *Config) { c.Port = 65536 },
		"port is -1":                    func(c *Config) { c.Port = -1 },
		"port_max is 9":                 func(c *Config) { c.Port, c.PortMax = 10, 9 },
		"port_max is 5":                 func(c *Config) { c.PortMax = 5 },
		"connections_per_peer is 0":     func(c *Config) { c.ConnectionsPerPeer = 0 },
		"connections_far is 0":          func(c *Config) { c.ConnectionsFar = 0 },
		"connections_per_peer is 65":    func(c *Config) { c.ConnectionsPerPeer = 65 },
		"max_connections is 0":          func(c *Config) { c.MaxConnections = 0 },
		"max_connections_per_peer is 0": func(c *Config) { c.MaxConnectionsPerPeer = 0 },
		"slice_bytes is 4095":           func(c *Config) { c.SliceBytes = 4095 },
		"slice_bytes is 67108865":       func(c *Config) { c.SliceBytes = 64<<20 + 1 },
		"max_inflight_bytes is 1":       func(c *Config) { c.MaxInflightBytes = 1 },
		"max_inflight_ops is 0":         func(c *Config) { c.MaxInflightOps = 0 },
		"op_timeout is 0s":              func(c *Config) { c.OpTimeout = 0 },
		"stall_timeout is -1s":          func(c *Config) { c.StallTimeout = plugin.Duration(-time.Second) },
		"dial_timeout is 25h0m0s":       func(c *Config) { c.DialTimeout = plugin.Duration(25 * time.Hour) },
		"handshake_timeout is 1ns":      func(c *Config) { c.HandshakeTimeout = 1 },
		"idle_timeout is 0s":            func(c *Config) { c.IdleTimeout = 0 },
		"send_buffer is -1":             func(c *Config) { c.SendBuffer = -1 },
		"receive_buffer is -1":          func(c *Config) { c.ReceiveBuffer = -1 },
		"advertise has 9 items":         func(c *Config) { c.Advertise = make([]string, 9) },
		`advertise ""`:                  func(c *Config) { c.Advertise = []string{""} },
		`advertise "a b"`:               func(c *Config) { c.Advertise = []string{"a b"} },
		`advertise "h:99999"`:           func(c *Config) { c.Advertise = []string{"h:99999"} },
	} {
		c := DefaultConfig()
		change(c)
		require.ErrorContains(t, plugin.Validate(c), want)
	}
}

func TestPortInUse(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = ln.Close() }()
	_, text, _ := net.SplitHostPort(ln.Addr().String())
	port, _ := strconv.Atoi(text)
	cfg := loopback()
	cfg.Port = port
	err = newNode(*cfg).Start(context.Background(), quiet{})
	require.ErrorContains(t, err, "address already in use")
	require.ErrorContains(t, err, "port_max", "the error says what to do")

	cfg.PortMax = min(port+50, 65535)
	n := newNode(*cfg)
	require.NoError(t, n.Start(context.Background(), quiet{}))
	require.NoError(t, n.Stop(context.Background()))
}

// ms is a duration of a configuration.
func ms(n int) plugin.Duration { return plugin.Duration(time.Duration(n) * time.Millisecond) }

func TestDurationsAreTextInTheConfiguration(t *testing.T) {
	text, err := json.Marshal(DefaultConfig())
	require.NoError(t, err)
	require.Contains(t, string(text), `"op_timeout":"30s"`)
	cfg := DefaultConfig()
	require.NoError(t, json.Unmarshal([]byte(`{"op_timeout":"10s","idle_timeout":"1m30s"}`), cfg))
	require.Equal(t, 10*time.Second, newNode(*cfg).cfg.OpTimeout)
	require.Equal(t, 90*time.Second, newNode(*cfg).cfg.IdleTimeout)
	require.ErrorContains(t, json.Unmarshal([]byte(`{"op_timeout":10}`), cfg), `"30s"`)
}
