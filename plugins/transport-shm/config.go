package shm

import (
	"fmt"
	"runtime"
	"time"

	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
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
	// MaxInflightBytes and MaxInflightOps are how much a path accepts before Submit returns a short
	// count. An operation larger than MaxInflightBytes is accepted alone.
	MaxInflightBytes int64 `json:"max_inflight_bytes"`
	MaxInflightOps   int   `json:"max_inflight_ops"`
	// MaxMappings bounds the regions of peers that are mapped at a time, over all paths: a process
	// has 65530 mappings unless vm.max_map_count says otherwise.
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
	err := transportkit.CheckBounds([]transportkit.Bound{
		{Name: "workers", Value: int64(c.Workers), High: 64},
		{Name: "slice_bytes", Value: int64(c.SliceBytes), Low: 64 << 10, High: 64 << 20},
		{Name: "max_inflight_bytes", Value: c.MaxInflightBytes, Low: 4 << 10, High: 1 << 50},
		{Name: "max_inflight_ops", Value: int64(c.MaxInflightOps), Low: 1, High: 1 << 20},
		{Name: "max_mappings", Value: int64(c.MaxMappings), Low: 1, High: 65536},
		{Name: "max_connections", Value: int64(c.MaxConnections), Low: 1, High: 65536},
	}...)
	if err != nil {
		return err
	}
	return transportkit.CheckTimeouts([]transportkit.Timeout{
		{Name: "op_timeout", Value: c.OpTimeout}, {Name: "dial_timeout", Value: c.DialTimeout},
		{Name: "handshake_timeout", Value: c.HandshakeTimeout}, {Name: "revoke_timeout", Value: c.RevokeTimeout},
	}...)
}

// workers returns how many goroutines copy.
func (c *Config) workers() int {
	if c.Workers > 0 {
		return c.Workers
	}
	return min(runtime.GOMAXPROCS(0), 4)
}
