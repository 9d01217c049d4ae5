package uds

import (
	"fmt"
	"path/filepath"

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// maxSlice is the longest payload of one frame in bytes.
const maxSlice = 16 << 20

// Config holds the settings. Sizes are bytes.
type Config struct {
	// Folder is the absolute path of the folder of the socket; empty for mooncake-uds-UID in the
	// folder for temporary files. Start makes it if necessary. It belongs to this user alone.
	Folder             string          `json:"folder" doc:"where the socket is made, absolute, and private to the user; empty for mooncake-uds-UID in the folder for temporary files"`
	ConnectionsPerPeer int             `json:"connections_per_peer" default:"4" range:"1..64" doc:"most connections of one path; each carries one operation at a time"`
	MaxConnections     int             `json:"max_connections" default:"1024" range:"1..65536" doc:"accepted connections in all"`
	SliceBytes         int             `json:"slice_bytes" default:"1MiB" range:"4KiB..16MiB" doc:"an operation is moved in pieces of this size"`
	MaxInflightOps     int             `json:"max_inflight_ops" default:"4096" range:"1..1048576" doc:"operations not yet reaped on one path before Submit accepts no more"`
	MaxInflightBytes   int64           `json:"max_inflight_bytes" default:"64MiB" range:"4KiB..1PiB" doc:"bytes in flight on one path before Submit accepts no more"`
	OpTimeout          plugin.Duration `json:"op_timeout" default:"30s" range:"1ms..24h" doc:"limit of an operation without a deadline of its own"`
	DialTimeout        plugin.Duration `json:"dial_timeout" default:"3s" range:"1ms..24h" doc:"limit for connecting, hello included"`
	StallTimeout       plugin.Duration `json:"stall_timeout" default:"10s" range:"1ms..24h" doc:"limit for one piece to be answered, or for the bytes of a request to arrive"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() *Config { return plugin.Defaults[Config]() }

// Validate implements plugin.Config.
func (c *Config) Validate() error {
	if c.Folder != "" && !filepath.IsAbs(c.Folder) {
		return fmt.Errorf("folder is %q, must be absolute", c.Folder)
	}
	if len(c.Folder) > maxFolder {
		return fmt.Errorf("folder has %d bytes, must have at most %d: the path of a socket is limited", len(c.Folder), maxFolder)
	}
	return nil
}
