// Package s3fifo is the eviction policy evict/s3fifo, after "FIFO Queues are All You Need for Cache
// Eviction" (Yang and others, SOSP 2023).
//
// New objects enter a small queue. Those that are read often enough there go on to the main queue,
// the others are evicted and remembered by the fingerprint of their key: an object that comes back
// while it is remembered enters the main queue at once. In the main queue an object that was read
// goes around again for each read, three times at most.
//
// A policy is not told how large the pool is, so all shares are of what is there now.
package s3fifo

import (
	_ "embed" // for manifest.json

	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/evict/ranked"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Config holds the settings of the policy.
type Config struct {
	SmallRatio   float64 `json:"small_ratio" default:"0.1" range:"0.01..0.9" doc:"share of the ranked bytes that the small queue may have before it gives up objects"`
	GhostRatio   float64 `json:"ghost_ratio" default:"0.9" range:"0..4" doc:"evicted objects that are remembered, by the number of objects there are"`
	PromoteReads int     `json:"promote_reads" default:"1" range:"1..3" doc:"reads in the small queue that bring an object into the main queue"`
}

// DefaultConfig returns the values of the paper, with one read where it has two: pages of a prompt
// that come back at all come back once, as a rule.
func DefaultConfig() *Config { return plugin.Defaults[Config]() }

// Validate implements plugin.Config: the tags say it all.
func (*Config) Validate() error { return nil }

//go:generate go run ./cmd/mooncake-plugin-evict-s3fifo --manifest manifest.json
//go:embed manifest.json
var manifestJSON string

// manifest describes the plugin. The host finds the same text in the program's bytes.
func manifest() plugin.Manifest { return plugin.MustParseManifest(manifestJSON) }

// Factory returns the factory of evict/s3fifo.
func Factory() evict.Factory {
	return evict.Define(manifest(), DefaultConfig,
		func(c *Config) (evict.Policy, error) { return newPolicy(*c), nil })
}

// maxReads is where the count of an object's reads ends.
const maxReads = 3

// state is what the policy knows of an object, 4 bytes. From the lowest bit: whether it is in the
// main queue, or in retained, and else in the small one; its reads; and the fingerprint of its key,
// folded, 0 where that is unknown.
type state uint32

const (
	inMain     state = 1
	oneRead    state = 2
	readsMask  state = maxReads * oneRead
	printShift       = 3
	printBits        = 32 - printShift
)

func (s state) main() bool          { return s&inMain != 0 }
func (s state) reads() int          { return int(s & readsMask / oneRead) }
func (s state) fingerprint() uint32 { return uint32(s >> printShift) }

// read counts one read more.
func (s *state) read() {
	if s.reads() < maxReads {
		*s += oneRead
	}
}

// order implements ranked.Order.
type order struct {
	cfg Config
	set *ranked.Set[state]
	// The queues have the next to go in front. retained holds objects that were retained after the
	// latest insert: they are of the main queue, and wait until all others are taken or a new
	// object comes.
	small, main, retained ranked.List
	// Bytes of the ranked objects in small, and in main and retained; modulo 2^64.
	smallBytes, mainBytes uint64
	ghost                 ghost
	// capacity is 0 while it is unknown. most is the largest number of objects there have been.
	capacity, most uint64
}

func newPolicy(cfg Config) evict.Policy {
	return ranked.New(func(s *ranked.Set[state]) ranked.Order { return newOrder(cfg, s) })
}

func newOrder(cfg Config, s *ranked.Set[state]) *order {
	return &order{cfg: cfg, set: s, small: s.NewList(), main: s.NewList(), retained: s.NewList(), ghost: newGhost()}
}

// Insert implements ranked.Order.
func (o *order) Insert(at uint32, ev *evict.Event) {
	o.set.MoveAll(o.main, o.retained)
	o.most = max(o.most, o.set.Len())
	e, print := o.set.At(at), fold(ev.Fingerprint)
	e.State = state(print) << printShift
	if o.ghost.take(print) {
		e.State |= inMain
		o.set.PushBack(o.main, at)
		o.mainBytes += o.set.Size(at)
	} else {
		o.set.PushBack(o.small, at)
		o.smallBytes += o.set.Size(at)
	}
}

// Access implements ranked.Order.
func (o *order) Access(at uint32, _ *evict.Event) { o.set.At(at).State.read() }

// Next implements ranked.Order.
func (o *order) Next() uint32 {
	for {
		small, main := o.set.Front(o.small), o.set.Front(o.main)
		switch {
		case small != 0 && (main == 0 || o.smallIsFull()):
			if e := o.set.At(small); e.State.reads() < o.cfg.PromoteReads {
				return small
			}
			o.promote(small)
		case main != 0:
			e := o.set.At(main)
			if e.State.reads() == 0 {
				return main
			}
			e.State -= oneRead
			o.set.Unlink(main)
			o.set.PushBack(o.main, main)
		case o.set.Front(o.retained) != 0:
			return o.set.Front(o.retained)
		default:
			return 0
		}
	}
}

func (o *order) smallIsFull() bool {
	return float64(o.smallBytes) >= o.cfg.SmallRatio*(float64(o.smallBytes)+float64(o.mainBytes))
}

// promote moves an object of the small queue to the main one, where its reads count anew.
func (o *order) promote(at uint32) {
	e := o.set.At(at)
	e.State = e.State&^readsMask | inMain
	o.set.Unlink(at)
	o.set.PushBack(o.main, at)
	o.smallBytes -= o.set.Size(at)
	o.mainBytes += o.set.Size(at)
}

// SetCapacity implements ranked.Sized.
func (o *order) SetCapacity(bytes uint64) { o.capacity = bytes }

// fit is the number of objects that the pool holds when it is full. An emptied pool has room for the objects that it had, so
// that their keys are worth remembering. most bounds the ghost if the last objects are tiny.
func (o *order) fit() float64 {
	there := o.set.Len()
	if o.capacity == 0 || o.set.Bytes() == 0 {
		return float64(there)
	}
	full := float64(o.capacity) / float64(o.set.Bytes()) * float64(there)
	return max(float64(there), min(full, float64(o.most)))
}

// Leave implements ranked.Order.
func (o *order) Leave(at uint32) {
	if o.set.At(at).State.main() {
		o.mainBytes -= o.set.Size(at)
	} else {
		o.smallBytes -= o.set.Size(at)
	}
	o.ghost.trim(uint64(o.cfg.GhostRatio * o.fit()))
}

// Spare implements ranked.Order.
func (o *order) Spare(at uint32) {
	e := o.set.At(at)
	e.State.read()
	e.State |= inMain
	o.set.PushBack(o.retained, at)
	o.mainBytes += o.set.Size(at)
}

// Evicted implements ranked.Order. Only what goes out of the small queue is remembered: the others
// had their chance.
func (o *order) Evicted(at uint32) {
	if s := o.set.At(at).State; !s.main() {
		o.ghost.add(s.fingerprint())
		o.ghost.trim(uint64(o.cfg.GhostRatio * o.fit()))
	}
}
