package base

import (
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/sealkeys"
	"github.com/mooncake-go/mooncake/core/store/hotcache"
	"github.com/mooncake-go/mooncake/core/store/internal/seal"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Config of a Client. DefaultConfig has the defaults.
type Config struct {
	// Checksum computes the CRC32C of every object on put and verifies it on get. Default on.
	Checksum bool
	// AllocWait is how long a put that finds no space keeps trying. Default 0: it fails at once, and
	// the caller decides.
	AllocWait time.Duration
	// TransferTimeout bounds the transfers of one call. With 0, the default, a get takes as long as
	// bytes move, and a put at most LongestPut. A timeout must stay below the master's put release
	// timeout (600 s), after which the master reuses the memory of an unfinished put.
	TransferTimeout time.Duration
	// FinishTimeout bounds the calls to the master that end a put, also when the caller's context has
	// ended by then. Default 10 s.
	FinishTimeout time.Duration
	// ReadRetries is how often the client repeats a read whose lease ended. Default 2.
	ReadRetries int
	// MaxBatch is how many keys of a batch the client handles at the same time. Default 1024.
	MaxBatch int
	// Tenant owns the keys of the client. Empty is model.DefaultTenant.
	Tenant model.Tenant
	// HotCache keeps objects of other nodes that are read often in this process. Off by default
	// (size 0).
	HotCache hotcache.Config
	// MaxObjectSize bounds the memory that Get allocates for one object. Default 16 GiB.
	MaxObjectSize uint64
	// Layers bounds layer-wise sessions.
	Layers LayersConfig
	// Seal has the client seal the objects that it puts, and open those that it gets.
	Seal SealConfig
}

// SealConfig says how objects are sealed.
type SealConfig struct {
	// Algorithm is seal.MAC or seal.AEAD; 0, the default, seals nothing.
	Algorithm seal.Algorithm
	// Keys are those of the tenant. The caller closes them after the client.
	Keys sealkeys.Keys
	// Staging is the memory, in bytes, in which puts have their ciphertext. A put that needs more waits; one that needs more than
	// all of it gets memory of its own, one at a time. Default 128 MiB, whose pages are allocated on first use.
	Staging int
	// Sessions bounds the bytes that open layer-wise puts hold, which are sealed when they end. Default 1 GiB.
	Sessions uint64
}

// LayersConfig bounds layer-wise sessions.
type LayersConfig struct {
	// MaxOpen is how many sessions one user may have, of both kinds together. Default 65536.
	MaxOpen int
	// IdleTimeout is how long a session for reading lasts that is neither used nor ended. Until then
	// it keeps its object in the pool. Default 10 min.
	IdleTimeout time.Duration
	// PutTimeout is how long a put may take from the start of its session to the end. Then the client
	// revokes it. It must stay below the master's put release timeout (600 s), after which the master
	// reuses the memory of an unfinished put. Default 5 min.
	PutTimeout time.Duration
}

// LongestPut bounds the writes of one put without a TransferTimeout. It stays below the master's put
// release timeout (600 s), after which the master may reuse the memory.
const LongestPut = 9 * time.Minute

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Checksum: true, FinishTimeout: 10 * time.Second, ReadRetries: 2, MaxBatch: 1024, MaxObjectSize: 16 << 30,
		HotCache: hotcache.DefaultConfig(),
		Layers:   LayersConfig{MaxOpen: 65536, IdleTimeout: 10 * time.Minute, PutTimeout: 5 * time.Minute},
		Seal:     SealConfig{Staging: 128 << 20, Sessions: 1 << 30},
	}
}

// Validate returns an error for the first invalid setting.
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
	if l := c.Layers; l.MaxOpen < 1 || l.IdleTimeout <= 0 || l.PutTimeout <= 0 {
		return errs.New(errs.InvalidParams, "store: configuration", "layer-wise sessions: at most %d open, idle for %v, puts within %v; all must be above 0",
			l.MaxOpen, l.IdleTimeout, l.PutTimeout)
	}
	if err := model.ValidateTenant(c.Tenant); err != nil {
		return err
	}
	if err := c.Seal.validate(c.Checksum); err != nil {
		return err
	}
	return c.HotCache.Validate()
}

func (c SealConfig) validate(checksum bool) error {
	switch {
	case c.Algorithm == 0:
		return nil
	case c.Algorithm != seal.MAC && c.Algorithm != seal.AEAD, c.Keys == nil, c.Staging < 64<<10:
		return errs.New(errs.InvalidParams, "store: configuration", "objects are to be sealed with algorithm %d, keys %T and %d bytes of staging", c.Algorithm, c.Keys, c.Staging)
	case !checksum:
		return errs.New(errs.InvalidParams, "store: configuration", "checksum is false, must be on where objects are sealed: its kind says that they are")
	}
	return nil
}

// ReadDeadline returns the deadline of reads that begin now, zero for none.
func (c *Config) ReadDeadline(now time.Time) time.Time {
	if c.TransferTimeout <= 0 {
		return time.Time{}
	}
	return now.Add(c.TransferTimeout)
}

// WriteDeadline returns the deadline of writes that begin now.
func (c *Config) WriteDeadline(now time.Time) time.Time {
	if c.TransferTimeout <= 0 {
		return now.Add(LongestPut)
	}
	return now.Add(c.TransferTimeout)
}
