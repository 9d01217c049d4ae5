package file

import (
	_ "embed" // The manifest is part of the program, so that a host can read it without running it.
	"fmt"
	"path/filepath"
	"time"

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// The values of Config.IO.
const (
	// IOAuto takes io_uring, or pread where the kernel refuses it.
	IOAuto = "auto"
	// IORing is io_uring.
	IORing = "io_uring"
	// IOPread is preadv and pwritev in goroutines.
	IOPread = "pread"
)

// Config holds the settings of the tier. Sizes are bytes.
type Config struct {
	// Path is an existing folder, below which the tier makes its own. Start fails without one.
	Path string `json:"path"`
	// Capacity is the size of the data files together; 0 for 90 % of what is free when the volume
	// is made. A volume whose setting is 0 keeps its capacity.
	Capacity uint64 `json:"capacity_bytes"`
	// IO is IOAuto, IORing or IOPread.
	IO string `json:"io"`
	// StagingBytes is the memory through which values are copied.
	StagingBytes uint64 `json:"staging_bytes"`
	// MaxInflightOps is how many operations are not yet reaped before Submit accepts no more.
	MaxInflightOps int `json:"max_inflight_ops"`
	// OpTimeout bounds an operation without a deadline of its own.
	OpTimeout plugin.Duration `json:"op_timeout"`
}

const (
	minCapacity = 1 << 20
	maxCapacity = 1 << 50
	minStaging  = 8 << 20
	maxStaging  = 16 << 30
)

// DefaultConfig returns the defaults. Path has none.
func DefaultConfig() *Config {
	return &Config{IO: IOAuto, StagingBytes: 64 << 20, MaxInflightOps: 4096, OpTimeout: plugin.Duration(30 * time.Second)}
}

// Validate implements plugin.Config.
func (c *Config) Validate() error {
	switch {
	case c.Path != "" && !filepath.IsAbs(c.Path):
		return fmt.Errorf("path is %q, must be absolute", c.Path)
	case c.Capacity != 0 && (c.Capacity < minCapacity || c.Capacity > maxCapacity):
		return fmt.Errorf("capacity_bytes is %d, must be 0 or %d to %d", c.Capacity, minCapacity, int64(maxCapacity))
	case c.IO != IOAuto && c.IO != IORing && c.IO != IOPread:
		return fmt.Errorf("io is %q, must be %q, %q or %q", c.IO, IOAuto, IORing, IOPread)
	case c.StagingBytes < minStaging || c.StagingBytes > maxStaging:
		return fmt.Errorf("staging_bytes is %d, must be %d to %d", c.StagingBytes, minStaging, int64(maxStaging))
	case c.MaxInflightOps < 1 || c.MaxInflightOps > 1<<20:
		return fmt.Errorf("max_inflight_ops is %d, must be 1 to %d", c.MaxInflightOps, 1<<20)
	case c.OpTimeout < plugin.Duration(time.Millisecond) || c.OpTimeout > plugin.Duration(24*time.Hour):
		return fmt.Errorf("op_timeout is %s, must be 1ms to 24h", c.OpTimeout)
	}
	return nil
}

//go:embed manifest.json
var manifestText string

func manifest() plugin.Manifest { return plugin.MustParseManifest(manifestText) }
