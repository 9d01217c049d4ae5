package file

import (
	_ "embed" // The manifest is part of the program, so that a host can read it without running it.
	"fmt"
	"path/filepath"

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
	Path           string          `json:"path" required:"true" doc:"an existing folder; the files lie in mooncake-tier below it, or in mooncake-tier-1 and so on if other processes use the same path"`
	Capacity       uint64          `json:"capacity_bytes" range:"0..1PiB" doc:"size of the data files together, at least 1 MiB; 0 for 90 % of what is free when the volume is made"`
	IO             string          `json:"io" default:"auto" enum:"auto|io_uring|pread" doc:"how files are read and written: auto takes pread where the kernel refuses io_uring"`
	StagingBytes   uint64          `json:"staging_bytes" default:"64MiB" range:"8MiB..16GiB" doc:"memory on transparent huge pages through which values are copied"`
	MaxInflightOps int             `json:"max_inflight_ops" default:"4096" range:"1..1048576" doc:"operations not yet reaped before Submit accepts no more"`
	OpTimeout      plugin.Duration `json:"op_timeout" default:"30s" range:"1ms..24h" doc:"limit of an operation without a deadline of its own"`
}

const minCapacity = 1 << 20

// DefaultConfig returns the defaults. Path has none.
func DefaultConfig() *Config { return plugin.Defaults[Config]() }

// Validate implements plugin.Config.
func (c *Config) Validate() error {
	switch {
	case c.Path != "" && !filepath.IsAbs(c.Path):
		return fmt.Errorf("path is %q, must be absolute", c.Path)
	case c.Capacity != 0 && c.Capacity < minCapacity:
		return fmt.Errorf("capacity_bytes is %d, must be 0 or at least %d", c.Capacity, minCapacity)
	}
	return nil
}

//go:generate go run ./cmd/mooncake-plugin-tier-file --manifest manifest.json
//go:embed manifest.json
var manifestText string

func manifest() plugin.Manifest { return plugin.MustParseManifest(manifestText) }
