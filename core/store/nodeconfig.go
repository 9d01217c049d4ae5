package store

import (
	"io/fs"
	"net/netip"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	// pieceAlign is what the size of a piece of a segment is a multiple of, in bytes.
	pieceAlign = 4 << 20
	// maxPieces bounds the pieces that a node has mounted.
	maxPieces = 4096
)

// NodeConfig of a Node. DefaultNodeConfig has the defaults.
type NodeConfig struct {
	// Segments are the sizes in bytes of the pieces of memory to contribute from the start,
	// at most 4096. None is allowed: MountSegment adds to them.
	Segments []uint64
	// MaxPiece is the largest range that is registered and mounted at once, in bytes, at
	// least 4 MiB; it is rounded down to a multiple of 4 MiB. Larger segments are mounted in
	// pieces. 0 is no limit.
	MaxPiece uint64
	// HugePages, Prefault, Location and Placement are those of memory.Options.
	HugePages memory.HugePages
	Prefault  bool
	Location  string
	Placement memory.Placement
	// Protocol is the transport that the node prefers, for display. Default "tcp".
	Protocol string
	// StartWait is how long Start keeps trying to reach the master and the metadata
	// service. Default 0: it tries once.
	StartWait time.Duration
	// StopGrace is how long Stop leaves the memory readable after the master was told that
	// no more objects are to be placed there. Default 0: not at all.
	StopGrace time.Duration
	// RPCTimeout bounds one call to the master or the metadata service. Default 5 s.
	RPCTimeout time.Duration
	// CheckInterval is the time between looks whether the metadata service still knows this
	// node; one that restarted does not. Default 15 s.
	CheckInterval time.Duration
	// TaskWorkers is how many copies and moves the node carries out at a time; 0 takes
	// none. Default 4. TaskInterval is how often it asks for them, default 1 s, and
	// TaskTimeout bounds one. It must stay below the master's put release timeout (600 s).
	// Default 5 min.
	TaskWorkers  int
	TaskInterval time.Duration
	TaskTimeout  time.Duration
	// SharedEngine says that the engine has other users: a node that leaves publishes without
	// its memory instead of taking back what is published.
	SharedEngine bool
	// Root is the file system that memory limits are read from, the machine's own when nil.
	Root fs.FS
}

// DefaultNodeConfig returns the defaults, without segments.
func DefaultNodeConfig() NodeConfig {
	return NodeConfig{
		Location:      "*",
		Protocol:      "tcp",
		RPCTimeout:    5 * time.Second,
		CheckInterval: 15 * time.Second,
		TaskWorkers:   4,
		TaskInterval:  time.Second,
		TaskTimeout:   5 * time.Minute,
	}
}

// Validate reports the first setting that cannot work.
func (c NodeConfig) Validate() error {
	bad := func(name string, got any, want string) error {
		return errs.New(errs.InvalidParams, "store node: configuration", "%s is %v, must be %s", name, got, want)
	}
	switch {
	case len(c.Segments) > maxPieces:
		return bad("number of segments", len(c.Segments), "at most 4096")
	case c.MaxPiece != 0 && c.MaxPiece < pieceAlign:
		return bad("largest piece", c.MaxPiece, "0 or at least 4 MiB")
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
	case c.TaskWorkers > 0 && (c.TaskInterval <= 0 || c.TaskTimeout <= 0):
		return bad("task interval or timeout", min(c.TaskInterval, c.TaskTimeout), "above 0")
	}
	total, pieces := uint64(0), 0
	for _, s := range c.Segments {
		if s == 0 || total+s < total {
			return bad("segment size", s, "at least 1 byte, and the sum below 2^64")
		}
		total += s
		pieces += c.pieces(s)
	}
	if pieces > maxPieces {
		return bad("number of pieces", pieces, "at most 4096; raise the largest piece")
	}
	return memory.ReadLimits(c.Root).Check(total)
}

// piece is the size of all pieces of a segment but the last.
func (c NodeConfig) piece(size uint64) uint64 {
	if c.MaxPiece == 0 || size <= c.MaxPiece {
		return size
	}
	return c.MaxPiece / pieceAlign * pieceAlign
}

// pieces is how many pieces a segment of size bytes has.
func (c NodeConfig) pieces(size uint64) int {
	p := c.piece(size)
	return int((size-1)/p + 1)
}

// hostOf returns the host part of host:port, empty where it names no particular machine.
func hostOf(name string) string {
	host := name
	if i := strings.LastIndexByte(name, ':'); i >= 0 && (strings.IndexByte(name, ':') == i || strings.HasPrefix(name, "[")) {
		host = name[:i]
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if ip, err := netip.ParseAddr(host); err == nil && (ip.IsLoopback() || ip.IsUnspecified()) || host == "localhost" {
		return ""
	}
	return host
}
