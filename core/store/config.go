package store

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store/hotcache"
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
	// TransferTimeout bounds the moving of the bytes of one call. 0, the default: it goes on
	// as long as bytes move, and a put for LongestPut at most. Where it is set it must stay
	// below the master's put release timeout (600 s), after which the memory of an unfinished
	// put is given to others.
	TransferTimeout time.Duration
	// FinishTimeout bounds the calls to the master that end a put, also when the caller's
	// context has ended by then. Default 10 s.
	FinishTimeout time.Duration
	// ReadRetries is how often a read whose lease ran out is started again. Default 2.
	ReadRetries int
	// MaxBatch is how many keys of a batch are worked on at a time. Default 1024.
	MaxBatch int
	// Tenant is whose keys the client works with. Empty is model.DefaultTenant.
	Tenant model.Tenant
	// HotCache keeps objects that are read often from other nodes in this process. Off by
	// default (size 0).
	HotCache hotcache.Config
	// MaxObjectSize bounds the memory that Get allocates for one object. Default 16 GiB.
	MaxObjectSize uint64
	// Layers bounds layer-wise sessions.
	Layers LayersConfig
}

// LongestPut bounds the writes of one put without a TransferTimeout. It stays below the master's
// put release timeout (600 s), after which others may be given the memory.
const LongestPut = 9 * time.Minute

// moving returns the deadline of reads that begin now: zero for as long as bytes move.
func (c *Config) moving(now time.Time) time.Time {
	if c.TransferTimeout <= 0 {
		return time.Time{}
	}
	return now.Add(c.TransferTimeout)
}

// writing returns the deadline of writes that begin now.
func (c *Config) writing(now time.Time) time.Time {
	if c.TransferTimeout <= 0 {
		return now.Add(LongestPut)
	}
	return now.Add(c.TransferTimeout)
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Checksum:      true,
		FinishTimeout: 10 * time.Second,
		ReadRetries:   2,
		MaxBatch:      1024,
		MaxObjectSize: 16 << 30,
		HotCache:      hotcache.DefaultConfig(),
		Layers:        DefaultLayersConfig(),
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
	case c.TransferTimeout < 0:
		return bad("transfer timeout", c.TransferTimeout, "0 or above")
	case c.FinishTimeout <= 0:
		return bad("finish timeout", c.FinishTimeout, "above 0")
	case c.ReadRetries < 0:
		return bad("number of read retries", c.ReadRetries, "0 or more")
	case c.MaxBatch < 1:
		return bad("batch size", c.MaxBatch, "at least 1")
	case c.MaxObjectSize < 1:
		return bad("object size bound", c.MaxObjectSize, "at least 1")
	case c.HotCache.Size > 0 && !c.Checksum:
		return bad("checksum", c.Checksum, "on with a hot cache, which could not tell a changed object otherwise")
	}
	if err := model.ValidateTenant(c.Tenant); err != nil {
		return err
	}
	if err := c.Layers.validate(); err != nil {
		return err
	}
	return c.HotCache.Validate()
}

// Deps is what a Client and a Node work with. The caller keeps and closes all of it.
type Deps struct {
	// ID names this process at the master. A Client and a Node of one process share it.
	ID     model.ClientID
	Master Master
	Engine *transfer.Engine
	Log    *slog.Logger
	// Session is shared by the Client and the Node of a process. Nil: each makes one of its
	// own, with the defaults, and ends it with itself.
	Session *Session
	// Buffers lends the memory of GetBuffer, which should be registered with the engine. Nil:
	// it comes from the heap.
	Buffers *memory.Pool
	// Metrics may be nil. A registry serves one Client and one Node.
	Metrics prometheus.Registerer
	// ClusterID and ClientMode are labels of every metric of the client. An empty ClusterID
	// is left out; an empty ClientMode is "real".
	ClusterID, ClientMode string
}

func (d Deps) validate() error {
	if d.ID.IsZero() || d.Master == nil || d.Engine == nil || d.Log == nil {
		return errs.New(errs.InvalidParams, "store", "an ID, a master, a transfer engine and a logger are needed")
	}
	if d.Session != nil && d.Session.id != d.ID {
		return errs.New(errs.InvalidParams, "store", "the session is that of %v, not of %v", d.Session.id, d.ID)
	}
	return nil
}

// registerer is Metrics with the labels that every metric of a client has.
func (d Deps) registerer() prometheus.Registerer {
	if d.Metrics == nil {
		return nil
	}
	labels := prometheus.Labels{"client_mode": d.ClientMode}
	if d.ClientMode == "" {
		labels["client_mode"] = "real"
	}
	if d.ClusterID != "" {
		labels["cluster_id"] = d.ClusterID
	}
	return prometheus.WrapRegistererWith(labels, d.Metrics)
}

// session returns the shared session, or a new one that is the caller's to close.
func (d Deps) session() (s *Session, own bool, err error) {
	if d.Session != nil {
		return d.Session, false, nil
	}
	s, err = NewSession(DefaultSessionConfig(), d)
	return s, true, err
}
