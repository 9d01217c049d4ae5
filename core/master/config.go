package master

import (
	"fmt"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/core/master/placement"
	"github.com/mooncake-go/mooncake/core/master/tasks"
	"github.com/mooncake-go/mooncake/core/model"
)

// Config is the master's configuration. Make one with DefaultConfig.
type Config struct {
	// Version is what Ready answers; a client refuses a master with another one.
	Version string
	// LeaseTTL is how long a read keeps an object in place (default_kv_lease_ttl). Default
	// 10 s; 0 protects no reader.
	LeaseTTL time.Duration
	// ClientTTL is how long a client may be silent before its segments are unmounted
	// (client_ttl). Default 10 s.
	ClientTTL time.Duration
	// SegmentRetention is how long the master remembers what lies in a segment whose node is silent for
	// longer than ClientTTL, in case the node returns (segment_retention). Default 10 min; 0 forgets it at
	// once. Segments without a ledger are forgotten at once.
	SegmentRetention time.Duration
	// PutDiscardTimeout is the age from which an unfinished put blocks no other put
	// (put_start_discard_timeout_sec). Default 30 s.
	PutDiscardTimeout time.Duration
	// WriteGrace is how long clients of the master before this one may go on writing to memory that has no ledger. It is
	// mounted again only then, or after LeaseTTL where that is longer.
	WriteGrace time.Duration
	// PutReleaseTimeout is the age from which the memory of an unfinished put is used
	// again; a writer must have stopped by then (put_start_release_timeout_sec). Default
	// 600 s, more than PutDiscardTimeout.
	PutReleaseTimeout time.Duration
	// MaxOpenPuts is how many unfinished puts one client may have (max_open_puts_per_client), and MaxOpenRatio the share
	// of the pool's capacity that its unfinished puts may occupy, with those that it gave up while their memory is
	// held back (max_open_ratio_per_client). Defaults 262144 and 0.9; 0 bounds nothing.
	MaxOpenPuts  int
	MaxOpenRatio float64
	// EvictionRatio is the share of the used bytes that one eviction at the watermark frees
	// beyond the watermark itself (eviction_ratio). Default 0.05, 0 to 1.
	EvictionRatio float64
	// EvictionHighWatermark is the share of the capacity from which objects are evicted
	// ahead of need (eviction_high_watermark_ratio). Default 0.9; 1 turns that off and
	// leaves eviction to puts that find no space.
	EvictionHighWatermark float64
	// AllocationStrategy is one of placement.Names (allocation_strategy).
	AllocationStrategy string
	// ProbeTTL is how long a lookup keeps an object in place; unlike a read it gives way when
	// there is no space otherwise (probe_lease_ttl). 0 is LeaseTTL.
	ProbeTTL time.Duration
	// SoftPinTTL is how long a soft pin lasts that names no time (default_kv_soft_pin_ttl),
	// MaxSoftPinTTL the most that one may ask for (max_kv_soft_pin_ttl). Defaults 30 min and
	// 24 h.
	SoftPinTTL, MaxSoftPinTTL time.Duration
	// EvictSoftPinned lets softly pinned objects go when nothing else can
	// (allow_evict_soft_pinned_objects). Default on.
	EvictSoftPinned bool
	// StripeSize is the size from which an object is laid over several segments
	// (stripe_size). Default 64 MiB.
	StripeSize uint64
	// Tiers lets nodes attach segments that are storage tiers (enable_offload), and says how they use them. nil, the
	// default, takes none.
	Tiers *model.TierPolicy
	// Saves is how many objects one eviction at the watermark may have saved where Tiers.OnEvict is set; the further ones go
	// without (offload_force_evict, offload_cap_ratio). A negative number, the default, has as many saved as can wait, and the
	// others stay until a put needs their memory.
	Saves int
	// MaxPromotions is how many objects all nodes together may bring back from storage tiers at the same time
	// (promotion_queue_limit). Default 50000.
	MaxPromotions int
	// History is how many keys that are gone the master remembers (why_history). Default
	// 262144, 32 bytes each; 0 remembers none.
	History int
	// Tasks bounds the copies and moves that clients carry out for the master.
	Tasks tasks.Config
	// ExistRanks lets lookups count as reads in the eviction order. Off by default: a
	// prefix lookup asks for far more keys than it reads.
	ExistRanks bool
	// MetricReporting writes the periodic log line (enable_metric_reporting). Default on.
	MetricReporting bool
	// MaxBatch is the most keys in one call. Default 65536.
	MaxBatch int
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Version:               "2.0.0",
		LeaseTTL:              10 * time.Second,
		ClientTTL:             10 * time.Second,
		SegmentRetention:      10 * time.Minute,
		PutDiscardTimeout:     30 * time.Second,
		PutReleaseTimeout:     600 * time.Second,
		MaxOpenPuts:           1 << 18,
		MaxOpenRatio:          0.9,
		EvictionRatio:         0.05,
		EvictionHighWatermark: 0.90,
		AllocationStrategy:    "random",
		SoftPinTTL:            30 * time.Minute,
		MaxSoftPinTTL:         24 * time.Hour,
		EvictSoftPinned:       true,
		StripeSize:            64 << 20,
		Saves:                 -1,
		MaxPromotions:         50_000,
		History:               1 << 18,
		Tasks:                 tasks.DefaultConfig(),
		MetricReporting:       true,
		MaxBatch:              65536,
	}
}

// Validate reports the first setting that cannot work.
func (c Config) Validate() error {
	switch {
	case c.LeaseTTL < 0:
		return fmt.Errorf("master: lease TTL is %s; it must not be negative", c.LeaseTTL)
	case c.ClientTTL < time.Second:
		return fmt.Errorf("master: client TTL is %s; it must be at least 1s, because clients ping about once a second", c.ClientTTL)
	case c.SegmentRetention < 0:
		return fmt.Errorf("master: segment retention is %s; it must not be negative", c.SegmentRetention)
	case c.PutDiscardTimeout <= 0:
		return fmt.Errorf("master: put discard timeout is %s; it must be positive", c.PutDiscardTimeout)
	case c.PutReleaseTimeout <= c.PutDiscardTimeout:
		return fmt.Errorf("master: put release timeout is %s; it must be longer than the put discard timeout, %s", c.PutReleaseTimeout, c.PutDiscardTimeout)
	case c.MaxOpenPuts < 0:
		return fmt.Errorf("master: the most unfinished puts of a client are %d; it must not be negative", c.MaxOpenPuts)
	case !(c.MaxOpenRatio >= 0 && c.MaxOpenRatio <= 1):
		return fmt.Errorf("master: the share of a client's unfinished puts is %g; it must be 0 to 1", c.MaxOpenRatio)
	case !(c.EvictionRatio >= 0 && c.EvictionRatio <= 1):
		return fmt.Errorf("master: eviction ratio is %g; it must be 0 to 1", c.EvictionRatio)
	case !(c.EvictionHighWatermark >= 0 && c.EvictionHighWatermark <= 1):
		return fmt.Errorf("master: eviction high watermark is %g; it must be 0 to 1", c.EvictionHighWatermark)
	case c.ProbeTTL < 0:
		return fmt.Errorf("master: probe lease TTL is %s; it must not be negative", c.ProbeTTL)
	case c.SoftPinTTL < 0 || c.SoftPinTTL > c.MaxSoftPinTTL:
		return fmt.Errorf("master: soft pin TTL is %s; it must be 0 to the longest allowed, %s", c.SoftPinTTL, c.MaxSoftPinTTL)
	case c.StripeSize < 1<<20:
		return fmt.Errorf("master: stripe size is %d bytes; it must be at least 1 MiB", c.StripeSize)
	case c.History < 0 || c.History > 1<<24:
		return fmt.Errorf("master: the history of gone keys has %d entries; it must be 0 to %d", c.History, 1<<24)
	case c.MaxBatch < 1 || c.MaxBatch > 1<<20:
		return fmt.Errorf("master: largest batch is %d keys; it must be 1 to %d", c.MaxBatch, 1<<20)
	}
	if err := c.Tasks.Validate(); err != nil {
		return fmt.Errorf("master: %w", err)
	}
	if _, err := placement.New(c.AllocationStrategy); err != nil {
		return fmt.Errorf("master: %w; choose one of %s", err, strings.Join(placement.Names(), ", "))
	}
	return nil
}
