package demo

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/core/bench/workload"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Options of a demo. Start from Default; sizes are bytes.
type Options struct {
	// Program is the mooncake executable that plays every role.
	Program string
	// Environ is the environment of every process.
	Environ []string
	Stores  int
	Workers int
	// PageSize is the size of one block's page.
	PageSize uint64
	// PoolPages is what all stores hold together, in pages; it is spread evenly, rounded up.
	PoolPages int
	// Window is the number of pages that a worker holds, and of one put or get.
	Window int
	// Load is the generated conversation; Trace, when set, a file in the FAST'25 format that
	// is replayed instead, its first Load.Requests requests.
	Load  workload.Config
	Trace string
	// LeaseTTL is how long a read protects a page.
	LeaseTTL time.Duration
	// Think is how long a worker waits after each request, as an engine computes between two.
	Think time.Duration
	// Protocol is the name of the transport plugin that moves the pages, and the only one.
	// TransportMode is where it runs in the stores and workers: auto, inprocess or subprocess.
	// Linked says that Program has it inside.
	Protocol string
	// Security is how the processes prove who they are: off, tls or mtls. The demo makes an authority and a certificate for
	// each role.
	Security string
	// Certificates says that the transport has the settings ca, cert and key. The demo then makes
	// an authority and a certificate that live with it.
	Certificates  bool
	TransportMode string
	Linked        bool
	// Evictor and Allocator are the names of the plugins; Mode is where they run: auto,
	// inprocess or subprocess. PluginDirs are searched for their binaries.
	Evictor    string
	Allocator  string
	Mode       string
	PluginDirs []string
	// Config is the absolute path of a configuration file that all processes read, empty for none. What the demo sets
	// itself goes before it. Set has settings as key=value, which go before everything.
	Config string
	Set    []string
	// Ask returns the plugins that a process of this number has in use, for the report; nil
	// leaves out what master and stores use.
	Ask func(ctx context.Context, pid int) ([]pluginhost.Instance, error)
	// Kill ends a process with SIGKILL in the middle, nil for none.
	Kill *Kill
	// Corrupt flips a byte in every page of the first store's memory after this share of all
	// requests, 0 for never.
	Corrupt float64
	// Tiers gives each store a storage tier in a temporary folder. TierBytes is the size of all of them, 0 for one with
	// space for the whole working set.
	Tiers     bool
	TierBytes uint64
	// Checksum lets the workers' clients compute and check checksums, as they do by default.
	Checksum bool
	// Log receives what the processes log, each line behind the name of its process; nil
	// discards it.
	Log io.Writer
	// Progress is where progress is shown: bars when it is a terminal, else plain lines.
	Progress io.Writer
}

// minTier is the size in bytes of the smallest tier of a store.
const minTier = 1 << 20

// Default is a demo of well under a minute on two cores: 1 MiB pages in a pool of 768 MiB
// under a working set of 1.8 GiB.
func Default() Options {
	return Options{
		Stores: 3, Workers: 2, PageSize: 1 << 20, PoolPages: 768, Window: 64,
		Load: workload.Default(), LeaseTTL: 200 * time.Millisecond, Checksum: true,
		Protocol: "tcp", TransportMode: "auto", Evictor: "prefix", Allocator: "arena", Mode: "auto",
	}
}

var modes = []string{"auto", "inprocess", "subprocess"}

// Validate reports the first option that cannot work.
func (o Options) Validate() error {
	refuse := func(format string, args ...any) error {
		return errs.New(errs.InvalidParams, "demo", format, args...)
	}
	if err := cluster.CheckSecurity(o.Security); err != nil {
		return err
	}
	switch {
	case o.Stores < 1 || o.Stores > 64:
		return refuse("%d stores, want 1 to 64", o.Stores)
	case o.Workers < 1 || o.Workers > 64:
		return refuse("%d workers, want 1 to 64", o.Workers)
	case o.PageSize < 4096 || o.PageSize > 256<<20 || o.PageSize%8 != 0:
		return refuse("a page of %d bytes, want a multiple of 8 from 4096 to %d", o.PageSize, 256<<20)
	case o.PoolPages < o.Stores:
		return refuse("a pool of %d pages on %d stores, want at least one page each", o.PoolPages, o.Stores)
	case o.Window < 1 || o.Window > 4096:
		return refuse("a window of %d pages, want 1 to 4096", o.Window)
	case o.LeaseTTL < time.Millisecond:
		return refuse("a lease of %v, want at least 1ms", o.LeaseTTL)
	case o.Think < 0:
		return refuse("a think time of %v, want 0 or more", o.Think)
	case o.Protocol == "":
		return refuse("no protocol, want the name of a transport plugin, for example tcp")
	case !slices.Contains(modes, o.Mode):
		return refuse("plugin mode %q is not auto, inprocess or subprocess", o.Mode)
	case !slices.Contains(modes, o.TransportMode):
		return refuse("transport mode %q is not auto, inprocess or subprocess", o.TransportMode)
	case !(o.Corrupt >= 0 && o.Corrupt < 1):
		return refuse("corrupt at %g of the load, want 0 (never) or a share below 1", o.Corrupt)
	case o.Tiers && o.Corrupt > 0:
		return refuse("corrupt with tiers: what is damaged before it is saved never reaches a storage tier, so use one of them")
	case o.TierBytes > 0 && (!o.Tiers || o.TierBytes < minTier*uint64(o.Stores)):
		return refuse("storage tiers of %d bytes, want --tiers, and at least %d for each of %d stores", o.TierBytes, minTier, o.Stores)
	case o.Tiers && o.poolPages() < 2*o.Workers*o.Window:
		return refuse("a pool of %d pages with tiers, want at least twice the window of each of %d workers, %d, so that pages stay in memory until they are saved", o.poolPages(), o.Workers, 2*o.Workers*o.Window)
	case o.Kill != nil && o.Kill.plugin() && o.Mode != "subprocess":
		return refuse("killing the %s plugin needs it in a process of its own; use --plugin-mode subprocess", o.Kill.Role)
	case o.Kill != nil && o.Kill.transport() && (o.TransportMode == "inprocess" || o.TransportMode == "auto" && o.Linked):
		return refuse("killing the transport needs it in a process of its own; use --transport-mode subprocess")
	case o.Kill != nil && o.Kill.Role == "store" && o.Stores < 2:
		return refuse("killing the only store leaves no pool; use --stores 2 or more")
	}
	if o.Trace != "" {
		return nil
	}
	return o.Load.Validate()
}

// segmentSize is the bytes of one store.
func (o Options) segmentSize() uint64 {
	pages := (o.PoolPages + o.Stores - 1) / o.Stores
	return uint64(pages) * o.PageSize
}

// clientTTL is how long a store may be silent: long enough that one on a busy machine is
// not taken for dead, and short where one is going to be.
func (o Options) clientTTL() time.Duration {
	if o.Kill != nil && o.Kill.Role == "store" {
		return 5 * time.Second
	}
	return 30 * time.Second
}

// poolPages is what the stores really hold.
func (o Options) poolPages() int {
	return (o.PoolPages + o.Stores - 1) / o.Stores * o.Stores
}

// Kill says what to end with SIGKILL, and when.
type Kill struct {
	// Role is "store" (the first one, which stays away), "master" (which is started again),
	// "evict" or "alloc" (the subprocess of the master's plugin, which the master starts
	// again), or "transport" or "worker-transport" (that of the first store's or worker's
	// transport, which the store or worker starts again).
	Role string
	// At is the share of all requests after which it happens, above 0 and below 1.
	At float64
}

// ParseKill reads "store@0.5", "master@0.5" and the like; the share defaults to a half.
func ParseKill(s string) (*Kill, error) {
	if s == "" {
		return nil, nil //nolint:nilnil // nothing to kill is a value here
	}
	role, share, found := strings.Cut(s, "@")
	k := &Kill{Role: role, At: 0.5}
	if found {
		at, err := strconv.ParseFloat(share, 64)
		if err != nil || !(at > 0 && at < 1) {
			return nil, errs.New(errs.InvalidParams, "demo", "kill %q: the share %q is not a number above 0 and below 1", s, share)
		}
		k.At = at
	}
	if !slices.Contains([]string{"store", "master", plugin.KindEvict, plugin.KindAlloc, plugin.KindTransport, workerTransport}, role) {
		return nil, errs.New(errs.InvalidParams, "demo", "kill %q: want store, master, evict, alloc, transport or worker-transport, with @ and a share of the requests, for example store@0.5", s)
	}
	return k, nil
}

// workerTransport is the transport's process of a worker.
const workerTransport = "worker-" + plugin.KindTransport

func (k Kill) transport() bool { return k.Role == plugin.KindTransport || k.Role == workerTransport }

func (k Kill) plugin() bool { return k.Role == plugin.KindEvict || k.Role == plugin.KindAlloc }

// String is the form that ParseKill reads.
func (k Kill) String() string { return fmt.Sprintf("%s@%g", k.Role, k.At) }
