package shm

import (
	"fmt"
	"runtime"
	"time"

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// The values of Config.Access.
const (
	// AccessUser admits processes of this user, and of root.
	AccessUser = "user"
	// AccessAny admits every process of the host's network namespace.
	AccessAny = "any"
)

// Config holds the settings of the shared-memory transport. Sizes are bytes.
type Config struct {
	// Access says which processes of this host may be peers: AccessUser or AccessAny.
	Access string `json:"access"`
	// Workers is how many goroutines copy; 0 for as many as there are processors, 4 at most.
	Workers int `json:"workers"`
	// SliceBytes is the most that a worker copies in one go.
	SliceBytes int `json:"slice_bytes"`
	// MaxInflightBytes and MaxInflightOps are how much a path accepts before Submit
	// returns a short count. An operation larger than MaxInflightBytes is accepted alone.
	MaxInflightBytes int64 `json:"max_inflight_bytes"`
	MaxInflightOps   int   `json:"max_inflight_ops"`
	// MaxMappings bounds the regions of peers that are mapped at a time, over all paths: a
	// process has 65530 mappings unless vm.max_map_count says otherwise.
	MaxMappings int `json:"max_mappings"`
	// MaxConnections bounds the accepted connections.
	MaxConnections int `json:"max_connections"`
	// OpTimeout bounds an operation without a deadline of its own.
	OpTimeout plugin.Duration `json:"op_timeout"`
	// DialTimeout bounds how long a peer may take to answer the hello.
	DialTimeout plugin.Duration `json:"dial_timeout"`
	// HandshakeTimeout bounds how long an accepted connection may take to say hello.
	HandshakeTimeout plugin.Duration `json:"handshake_timeout"`
	// RevokeTimeout bounds how long Deregister and Stop wait for peers to unmap memory.
	RevokeTimeout plugin.Duration `json:"revoke_timeout"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() *Config {
	return &Config{
		Access:           AccessUser,
		SliceBytes:       1 << 20,
		MaxInflightBytes: 256 << 20,
		MaxInflightOps:   4096,
		MaxMappings:      16384,
		MaxConnections:   1024,
		OpTimeout:        plugin.Duration(30 * time.Second),
		DialTimeout:      plugin.Duration(3 * time.Second),
		HandshakeTimeout: plugin.Duration(5 * time.Second),
		RevokeTimeout:    plugin.Duration(10 * time.Second),
	}
}

// Validate implements plugin.Config.
func (c *Config) Validate() error {
	if c.Access != AccessUser && c.Access != AccessAny {
		return fmt.Errorf("access is %q, must be %q or %q", c.Access, AccessUser, AccessAny)
	}
	for _, f := range []struct {
		name     string
		val      int64
		low, top int64
	}{
		{"workers", int64(c.Workers), 0, 64},
		{"slice_bytes", int64(c.SliceBytes), 64 << 10, 64 << 20},
		{"max_inflight_bytes", c.MaxInflightBytes, 4 << 10, 1 << 50},
		{"max_inflight_ops", int64(c.MaxInflightOps), 1, 1 << 20},
		{"max_mappings", int64(c.MaxMappings), 1, 65536},
		{"max_connections", int64(c.MaxConnections), 1, 65536},
	} {
		if f.val < f.low || f.val > f.top {
			return fmt.Errorf("%s is %d, must be %d to %d", f.name, f.val, f.low, f.top)
		}
	}
	for _, d := range []struct {
		name string
		val  plugin.Duration
	}{
		{"op_timeout", c.OpTimeout}, {"dial_timeout", c.DialTimeout},
		{"handshake_timeout", c.HandshakeTimeout}, {"revoke_timeout", c.RevokeTimeout},
	} {
		if d.val < plugin.Duration(time.Millisecond) || d.val > plugin.Duration(24*time.Hour) {
			return fmt.Errorf("%s is %s, must be 1ms to 24h", d.name, d.val)
		}
	}
	return nil
}

// workers returns how many goroutines copy.
func (c *Config) workers() int {
	if c.Workers > 0 {
		return c.Workers
	}
	return min(runtime.GOMAXPROCS(0), 4)
}
