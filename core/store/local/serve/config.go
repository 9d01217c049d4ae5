package serve

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooncake-go/mooncake/core/store/client"
	"github.com/mooncake-go/mooncake/core/store/local/internal/frame"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Config of a Server. DefaultConfig has the defaults.
type Config struct {
	// Socket is where processes attach: an absolute path, or "@" and an abstract name, which
	// needs no file and vanishes with the process.
	Socket string
	// Any lets every user of the host attach. Default: this user and root.
	Any bool
	// LendSize is the memory, in bytes, in which GetBuffer lends objects; 0 lends none. Default
	// 256 MiB, whose pages are allocated on first use. One process may hold half of it.
	LendSize uint64
	// HelloTimeout bounds the time in which a connection must state its purpose, and PingTimeout
	// the silence of a process afterwards. Defaults 5 s and 10 s.
	HelloTimeout, PingTimeout time.Duration
	// CallTimeout bounds one call. Default 75 s, above the transfer timeout of the client.
	CallTimeout time.Duration
	// The limits of processes: attached processes, connections that are not introduced yet; and
	// for each process its regions of memory, their total bytes, calls in flight, items of a call,
	// and lent objects. Defaults 64, 64, 256, 4 TiB, 64, 65536, 4096.
	MaxPeers, MaxPending, MaxRegions int
	MaxBytes                         uint64
	MaxCalls, MaxItems, MaxLent      int
}

// DefaultConfig returns the defaults for a socket.
func DefaultConfig(socket string) Config {
	return Config{
		Socket: socket, LendSize: 256 << 20, HelloTimeout: 5 * time.Second, PingTimeout: 10 * time.Second, CallTimeout: 75 * time.Second,
		MaxPeers: 64, MaxPending: 64, MaxRegions: 256, MaxBytes: 4 << 40, MaxCalls: 64, MaxItems: 65536, MaxLent: 4096,
	}
}

// Validate reports the first setting that cannot work.
func (c Config) Validate() error {
	const op = "local service: configuration"
	if err := frame.CheckSocket(c.Socket); err != nil {
		return errs.Wrap(errs.InvalidParams, op, err)
	}
	if min(c.HelloTimeout, c.PingTimeout, c.CallTimeout) <= 0 {
		return errs.New(errs.InvalidParams, op, "the hello timeout %v, the ping timeout %v and the call timeout %v must be above 0", c.HelloTimeout, c.PingTimeout, c.CallTimeout)
	}
	if min(c.MaxPeers, c.MaxPending, c.MaxRegions, c.MaxCalls, c.MaxItems, c.MaxLent) < 1 || c.MaxBytes < 1 {
		return errs.New(errs.InvalidParams, op, "every bound must be at least 1")
	}
	return nil
}

// Deps is what a Server works with. The caller keeps and closes all of it.
type Deps struct {
	// Client does what the processes ask for.
	Client *client.Client
	Log    *slog.Logger
	// Version of this program, for the other side's log.
	Version string
	// Metrics may be nil.
	Metrics prometheus.Registerer
}
