package uds

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// maxSlice is the longest payload of one frame in bytes.
const maxSlice = 16 << 20

// Config holds the settings. Sizes are bytes.
type Config struct {
	// Folder is the absolute path of the folder of the socket; empty for mooncake-uds-UID in the
	// folder for temporary files. Start makes it if necessary. It belongs to this user alone.
	Folder string `json:"folder"`
	// ConnectionsPerPeer is the most connections of one path. Each carries one operation at a time.
	ConnectionsPerPeer int `json:"connections_per_peer"`
	// MaxConnections bounds the accepted connections.
	MaxConnections int `json:"max_connections"`
	// SliceBytes is the size of the chunks of an operation.
	SliceBytes int `json:"slice_bytes"`
	// MaxInflightOps and MaxInflightBytes are how much a path accepts before Submit returns a
	// short count. An operation larger than MaxInflightBytes is accepted alone.
	MaxInflightOps   int   `json:"max_inflight_ops"`
	MaxInflightBytes int64 `json:"max_inflight_bytes"`
	// OpTimeout bounds an operation without a deadline of its own, DialTimeout an attempt to
	// connect, and StallTimeout the time that the other side takes for one chunk.
	OpTimeout    plugin.Duration `json:"op_timeout"`
	DialTimeout  plugin.Duration `json:"dial_timeout"`
	StallTimeout plugin.Duration `json:"stall_timeout"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() *Config {
	return &Config{
		ConnectionsPerPeer: 4,
		MaxConnections:     1024,
		SliceBytes:         1 << 20,
		MaxInflightOps:     4096,
		MaxInflightBytes:   64 << 20,
		OpTimeout:          plugin.Duration(30 * time.Second),
		DialTimeout:        plugin.Duration(3 * time.Second),
		StallTimeout:       plugin.Duration(10 * time.Second),
	}
}

// Validate implements plugin.Config.
func (c *Config) Validate() error {
	if c.Folder != "" && !filepath.IsAbs(c.Folder) {
		return fmt.Errorf("folder is %q, must be absolute", c.Folder)
	}
	if len(c.Folder) > maxFolder {
		return fmt.Errorf("folder has %d bytes, must have at most %d: the path of a socket is limited", len(c.Folder), maxFolder)
	}
	for _, f := range []struct {
		name     string
		val      int64
		low, top int64
	}{
		{"connections_per_peer", int64(c.ConnectionsPerPeer), 1, 64},
		{"max_connections", int64(c.MaxConnections), 1, 65536},
		{"slice_bytes", int64(c.SliceBytes), 4 << 10, maxSlice},
		{"max_inflight_ops", int64(c.MaxInflightOps), 1, 1 << 20},
		{"max_inflight_bytes", c.MaxInflightBytes, 4 << 10, 1 << 50},
	} {
		if f.val < f.low || f.val > f.top {
			return fmt.Errorf("%s is %d, must be %d to %d", f.name, f.val, f.low, f.top)
		}
	}
	for _, d := range []struct {
		name string
		val  plugin.Duration
	}{{"op_timeout", c.OpTimeout}, {"dial_timeout", c.DialTimeout}, {"stall_timeout", c.StallTimeout}} {
		if d.val < plugin.Duration(time.Millisecond) || d.val > plugin.Duration(24*time.Hour) {
			return fmt.Errorf("%s is %s, must be 1ms to 24h", d.name, d.val)
		}
	}
	return nil
}
