package node

import (
	"io/fs"
	"time"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	// segmentAlign is the unit of Config.MaxSegment, in bytes.
	segmentAlign = 4 << 20
	// maxSegments bounds the mounted segments of a node.
	maxSegments = 4096
)

// Config of a Node. DefaultConfig has the defaults.
type Config struct {
	// Segments are the sizes in bytes of the memory to contribute from the start, at most 4096 of
	// them. There may be none, since MountSegment adds more.
	Segments []uint64
	// MaxSegment is the largest range that the node registers and mounts at once, in bytes, at least
	// 4 MiB; the node rounds it down to a multiple of 4 MiB. It divides larger memory into several
	// segments. 0 is no limit.
	MaxSegment uint64
	// HugePages, Prefault, Location and Placement are those of memory.Options.
	HugePages memory.HugePages
	Prefault  bool
	Location  string
	Placement memory.Placement
	// Protocol is the transport that the node prefers, for display. Default "tcp".
	Protocol string
	// StartWait is how long Start tries to reach the master and the metadata service. Default 0: once.
	StartWait time.Duration
	// StopGrace is how long Stop leaves the memory readable after the master has stopped placing
	// objects there. Default 0.
	StopGrace time.Duration
	// RPCTimeout bounds one call to the master or the metadata service. Default 5 s.
	RPCTimeout time.Duration
	// CheckInterval is the time between checks whether the metadata service still knows this node,
	// which it does not after a restart. Default 15 s.
	CheckInterval time.Duration
	// TaskWorkers is how many copies and moves the node carries out at the same time; with 0 it takes
	// none. Default 4. TaskInterval is how often it asks for them, default 1 s. TaskTimeout bounds
	// each. It must stay below the master's put release timeout (600 s). Default 5 min.
	TaskWorkers  int
	TaskInterval time.Duration
	TaskTimeout  time.Duration
	// SharedEngine says that the engine has other users: a node that leaves publishes the engine's
	// descriptor without its memory, instead of withdrawing it.
	SharedEngine bool
	// Kept keeps the memory that the node allocates beyond the life of this process, nil for none. What
	// is kept stays mounted when the node stops.
	Kept *Kept
	// Tiers are the node's storage tiers, nil for none.
	Tiers *Tiers
	// Grants says that the node serves only what a master allowed: config.Security.Grants.
	Grants bool
	// Root is the file system from which the node reads memory limits, the machine's own if nil.
	Root fs.FS
}

// DefaultConfig returns the defaults, without segments.
func DefaultConfig() Config {
	return Config{
		Location: "*", Protocol: "tcp", RPCTimeout: 5 * time.Second, CheckInterval: 15 * time.Second,
		TaskWorkers: 4, TaskInterval: time.Second, TaskTimeout: 5 * time.Minute,
	}
}

// Validate returns an error for the first invalid setting, and for one that does not suit what Kept keeps.
func (c Config) Validate() error {
	bad := func(name string, got any, want string) error {
		return errs.New(errs.InvalidParams, "store node: configuration", "%s is %v, must be %s", name, got, want)
	}
	switch {
	case len(c.Segments) > maxSegments:
		return bad("number of segments", len(c.Segments), "at most 4096")
	case c.MaxSegment != 0 && c.MaxSegment < segmentAlign:
		return bad("largest segment", c.MaxSegment, "0 or at least 4 MiB")
	case c.StartWait < 0:
		return bad("start wait", c.StartWait, "0 or more")
	case c.StopGrace < 0:
		return bad("stop grace", c.StopGrace, "0 or more")
	case c.RPCTimeout <= 0:
		return bad("call timeout", c.RPCTimeout, "above 0")
	case c.CheckInterval <= 0:
		return bad("check interval", c.CheckInterval, "above 0")
	case c.TaskWorkers < 0 || c.TaskWorkers > 64:
		return bad("number of task workers", c.TaskWorkers, "0 to 64")
	case c.Tiers.validate() != nil:
		return c.Tiers.validate()
	case c.TaskWorkers > 0 && (c.TaskInterval <= 0 || c.TaskTimeout <= 0):
		return bad("task interval or timeout", min(c.TaskInterval, c.TaskTimeout), "above 0")
	}
	total, segments := uint64(0), 0
	for _, s := range c.Segments {
		if s == 0 || total+s < total {
			return bad("segment size", s, "at least 1 byte, and the total below 2^64")
		}
		total += s
		segments += c.segmentsOf(s)
	}
	if segments > maxSegments {
		return bad("number of segments", segments, "at most 4096; raise the largest segment")
	}
	if c.Kept != nil {
		machine, err := c.Kept.check(c.HugePages)
		if err != nil || !machine {
			return err
		}
	}
	return memory.ReadLimits(c.Root).Check(total)
}

// segmentSize returns the size of every segment but the last into which memory of a size is divided.
func (c Config) segmentSize(size uint64) uint64 {
	if c.MaxSegment == 0 || size <= c.MaxSegment {
		return size
	}
	return c.MaxSegment / segmentAlign * segmentAlign
}

// segmentsOf returns into how many segments memory of a size is divided.
func (c Config) segmentsOf(size uint64) int { return int((size-1)/c.segmentSize(size) + 1) }
