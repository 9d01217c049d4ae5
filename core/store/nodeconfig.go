package store

import (
	"io/fs"
	"net/netip"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// NodeConfig of a Node. DefaultNodeConfig has the defaults.
type NodeConfig struct {
	// Segments are the sizes in bytes of the pieces of memory to contribute, at most 256.
	Segments []uint64
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
	// PingInterval is the time between signs of life; it must be well below the master's
	// client_ttl (10 s). While the master does not answer it grows up to MaxPingInterval.
	// Defaults 1 s and 3 s.
	PingInterval    time.Duration
	MaxPingInterval time.Duration
	// RPCTimeout bounds one call to the master or the metadata service. Default 5 s.
	RPCTimeout time.Duration
	// CheckInterval is the time between looks whether the metadata service still knows this
	// node; one that restarted does not. Default 15 s.
	CheckInterval time.Duration
	// Root is the file system that memory limits are read from, the machine's own when nil.
	Root fs.FS
}

// DefaultNodeConfig returns the defaults, without segments.
func DefaultNodeConfig() NodeConfig {
	return NodeConfig{
		Location:        "*",
		Protocol:        "tcp",
		PingInterval:    time.Second,
		MaxPingInterval: 3 * time.Second,
		RPCTimeout:      5 * time.Second,
		CheckInterval:   15 * time.Second,
	}
}

// Validate reports the first setting that cannot work.
func (c NodeConfig) Validate() error {
	bad := func(name string, got any, want string) error {
		return errs.New(errs.InvalidParams, "store node: configuration", "%s is %v, must be %s", name, got, want)
	}
	switch {
	case len(c.Segments) == 0 || len(c.Segments) > 256:
		return bad("number of segments", len(c.Segments), "1 to 256")
	case c.StartWait < 0:
		return bad("start wait", c.StartWait, "0 or more")
	case c.PingInterval <= 0 || c.MaxPingInterval < c.PingInterval:
		return bad("ping interval", c.PingInterval, "above 0 and at most its maximum")
	case c.RPCTimeout <= 0:
		return bad("call timeout", c.RPCTimeout, "above 0")
	case c.CheckInterval <= 0:
		return bad("check interval", c.CheckInterval, "above 0")
	}
	total := uint64(0)
	for _, s := range c.Segments {
		if s == 0 || total+s < total {
			return bad("segment size", s, "at least 1 byte, and the sum below 2^64")
		}
		total += s
	}
	return memory.ReadLimits(c.Root).Check(total)
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
