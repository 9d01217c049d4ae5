package local

import (
	"log/slog"
	"time"

	"github.com/mooncake-go/mooncake/core/store/local/internal/frame"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Config of a Client. DefaultConfig has the defaults.
type Config struct {
	// Socket is where to attach: an absolute path, or "@" and an abstract name. SocketOfPort
	// has the name for a port.
	Socket string
	// Any accepts a service of any user of the host. Default: this user's and root's, since
	// the serving process can read and write the shared memory.
	Any bool
	// LocalBufferSize is the shared memory that values in other memory go through, in bytes;
	// 0 for none, and then such values cannot be put. Default 16 MiB.
	LocalBufferSize uint64
	// Allocator is where memory for RegisterBuffer comes from; nil for none.
	Allocator *Allocator
	// PingInterval is the time between signs of life and PingTimeout how long the answer may
	// take. Defaults 1 s and 3 s.
	PingInterval, PingTimeout time.Duration
	// RetryInterval is the longest pause between attempts to attach again; the first follows
	// at once. Default 2 s.
	RetryInterval time.Duration
	// OutageWait is how long a call waits for the service to come back. Default 1 s.
	OutageWait time.Duration
	// CallTimeout bounds a call whose context has no earlier end. Default 60 s.
	CallTimeout time.Duration
	// SettleTimeout is how long a broken attachment may take to be proven over. Default 10 s.
	SettleTimeout time.Duration
	// Log receives the events of the attachment; nil discards them.
	Log *slog.Logger
	// Version of this program, for the service's log.
	Version string
}

// DefaultConfig returns the defaults for a socket.
func DefaultConfig(socket string) Config {
	return Config{
		Socket: socket, LocalBufferSize: 16 << 20, PingInterval: time.Second, PingTimeout: 3 * time.Second,
		RetryInterval: 2 * time.Second, OutageWait: time.Second, CallTimeout: 60 * time.Second, SettleTimeout: 10 * time.Second,
	}
}

// Validate reports the first setting that cannot work.
func (c Config) Validate() error {
	const op = "local client: configuration"
	if err := frame.CheckSocket(c.Socket); err != nil {
		return errs.Wrap(errs.InvalidParams, op, err)
	}
	for name, d := range map[string]time.Duration{
		"ping interval": c.PingInterval, "ping timeout": c.PingTimeout, "retry interval": c.RetryInterval,
		"call timeout": c.CallTimeout, "settle timeout": c.SettleTimeout,
	} {
		if d <= 0 {
			return errs.New(errs.InvalidParams, op, "the %s is %v, must be above 0", name, d)
		}
	}
	if c.OutageWait < 0 {
		return errs.New(errs.InvalidParams, op, "the outage wait is %v, must be 0 or more", c.OutageWait)
	}
	return nil
}

// SocketOfPort names the socket of the service that serves status on a TCP port.
func SocketOfPort(port int) string { return frame.SocketOfPort(port) }
