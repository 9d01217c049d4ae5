package shm

import (
	"runtime"

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
	Access           string `json:"access" default:"user" enum:"user|any" doc:"which processes of this host may be peers: those of this user and of root, or any"`
	Workers          int    `json:"workers" range:"0..64" doc:"threads that copy, of the process that submits; 0 for as many as there are processors, 4 at most"`
	SliceBytes       int    `json:"slice_bytes" default:"1MiB" range:"64KiB..64MiB" doc:"the most that is copied in one go; operations in flight take turns"`
	MaxInflightBytes int64  `json:"max_inflight_bytes" default:"256MiB" range:"4KiB..1PiB" doc:"bytes in flight on one path before Submit accepts no more"`
	MaxInflightOps   int    `json:"max_inflight_ops" default:"4096" range:"1..1048576" doc:"operations not yet reaped on one path before Submit accepts no more"`
	// MaxMappings bounds the regions of peers that are mapped at a time, over all paths: a process
	// has 65530 mappings unless vm.max_map_count says otherwise.
	MaxMappings      int             `json:"max_mappings" default:"16384" range:"1..65536" doc:"regions of peers that are mapped at a time; operations on more fail, class transient-path"`
	MaxConnections   int             `json:"max_connections" default:"1024" range:"1..65536" doc:"accepted connections in all"`
	OpTimeout        plugin.Duration `json:"op_timeout" default:"30s" range:"1ms..24h" doc:"limit of an operation without a deadline of its own"`
	DialTimeout      plugin.Duration `json:"dial_timeout" default:"3s" range:"1ms..24h" doc:"limit for a peer to answer the hello"`
	HandshakeTimeout plugin.Duration `json:"handshake_timeout" default:"5s" range:"1ms..24h" doc:"limit for an accepted connection to say hello"`
	RevokeTimeout    plugin.Duration `json:"revoke_timeout" default:"10s" range:"1ms..24h" doc:"how long Deregister and Stop wait for peers to unmap memory"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() *Config { return plugin.Defaults[Config]() }

// Validate implements plugin.Config: the tags say it all.
func (*Config) Validate() error { return nil }

// workers returns how many goroutines copy.
func (c *Config) workers() int {
	if c.Workers > 0 {
		return c.Workers
	}
	return min(runtime.GOMAXPROCS(0), 4)
}
