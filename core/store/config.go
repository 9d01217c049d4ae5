package store

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Config of a Client. DefaultConfig has the defaults.
type Config struct {
	// Checksum computes a CRC-32C of every object on put and checks it on get. Default on.
	Checksum bool
	// AllocWait is how long a put that finds no room keeps asking. Default 0: it fails at
	// once, and the caller decides.
	AllocWait time.Duration
	// TransferTimeout bounds the moving of the bytes of one call. It must stay below the
	// master's put release timeout (600 s), after which the memory of an unfinished put is
	// given to others. Default 60 s.
	TransferTimeout time.Duration
	// FinishTimeout bounds the calls to the master that end a put, also when the caller's
	// context has ended by then. Default 10 s.
	FinishTimeout time.Duration
	// ReadRetries is how often a read whose lease ran out is started again. Default 2.
	ReadRetries int
	// MaxBatch is how many keys of a batch are worked on at a time. Default 1024.
	MaxBatch int
	// MaxObjectSize bounds the memory that Get allocates for one object. Default 16 GiB.
	MaxObjectSize uint64
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Checksum:        true,
		TransferTimeout: 60 * time.Second,
		FinishTimeout:   10 * time.Second,
		ReadRetries:     2,
		MaxBatch:        1024,
		MaxObjectSize:   16 << 30,
	}
}

// Validate reports the first setting that cannot work.
func (c Config) Validate() error {
	bad := func(name string, got any, want string) error {
		return errs.New(errs.InvalidParams, "store: configuration", "%s is %v, must be %s", name, got, want)
	}
	switch {
	case c.AllocWait < 0:
		return bad("allocation wait", c.AllocWait, "0 or more")
	case c.TransferTimeout <= 0:
		return bad("transfer timeout", c.TransferTimeout, "above 0")
	case c.FinishTimeout <= 0:
		return bad("finish timeout", c.FinishTimeout, "above 0")
	case c.ReadRetries < 0:
		return bad("number of read retries", c.ReadRetries, "0 or more")
	case c.MaxBatch < 1:
		return bad("batch size", c.MaxBatch, "at least 1")
	case c.MaxObjectSize < 1:
		return bad("object size bound", c.MaxObjectSize, "at least 1")
	}
	return nil
}

// Deps is what a Client and a Node work with. The caller keeps and closes all of it.
type Deps struct {
	// ID names this process at the master. A Client and a Node of one process share it.
	ID     model.ClientID
	Master Master
	Engine *transfer.Engine
	Log    *slog.Logger
	// Metrics may be nil. A registry serves one Client and one Node.
	Metrics prometheus.Registerer
}

func (d Deps) validate() error {
	if d.ID.IsZero() || d.Master == nil || d.Engine == nil || d.Log == nil {
		return errs.New(errs.InvalidParams, "store", "an ID, a master, a transfer engine and a logger are needed")
	}
	return nil
}
