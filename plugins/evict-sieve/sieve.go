// Package sieve is the eviction policy evict/sieve, after "SIEVE is Simpler than LRU" (Zhang and
// others, NSDI 2024): objects stay in the order of insertion; a hand goes over them from the oldest
// to the newest and around again, takes the first that was not read since it last came by, and
// waits there.
//
// New objects are looked at soon, so that those that no client reads again go early, while old ones
// that are read stay without being moved.
package sieve

import (
	_ "embed" // for manifest.json

	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/evict/ranked"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Config is empty: the hand has nothing to tune.
type Config = plugin.NoConfig

//go:generate go run ./cmd/mooncake-plugin-evict-sieve --manifest manifest.json
//go:embed manifest.json
var manifestJSON string

// manifest describes the plugin. The host finds the same text in the program's bytes.
func manifest() plugin.Manifest { return plugin.MustParseManifest(manifestJSON) }

// Factory returns the factory of evict/sieve.
func Factory() evict.Factory {
	return evict.Define(manifest(),
		func() *Config { return new(Config) },
		func(*Config) (evict.Policy, error) { return newPolicy(), nil })
}

// state is what the policy knows of an object.
type state struct {
	// visited says that it was read since the hand last came by.
	visited bool
}

// order implements ranked.Order.
type order struct {
	set *ranked.Set[state]
	// queue has the oldest object in front.
	queue ranked.List
	// hand is the next object to look at, 0 for the oldest.
	hand uint32
}

func newPolicy() evict.Policy {
	return ranked.New(func(s *ranked.Set[state]) ranked.Order {
		return &order{set: s, queue: s.NewList()}
	})
}

// Insert implements ranked.Order.
func (o *order) Insert(at uint32, _ *evict.Event) { o.set.PushBack(o.queue, at) }

// Access implements ranked.Order.
func (o *order) Access(at uint32, _ *evict.Event) { o.set.At(at).State.visited = true }

// Next implements ranked.Order. It ends after one full turn at the latest, in which it takes all
// the marks away.
func (o *order) Next() uint32 {
	for {
		if o.hand == 0 {
			if o.hand = o.set.Front(o.queue); o.hand == 0 {
				return 0
			}
		}
		e := o.set.At(o.hand)
		if !e.State.visited {
			return o.hand
		}
		e.State.visited = false
		o.hand = o.set.Next(o.queue, o.hand)
	}
}

// Leave implements ranked.Order.
func (o *order) Leave(at uint32) {
	if at == o.hand {
		o.hand = o.set.Next(o.queue, at)
	}
}

// Spare implements ranked.Order. The place behind the hand, with a mark, is the last that the hand
// comes to a second time, when it has taken all others.
func (o *order) Spare(at uint32) {
	o.set.At(at).State.visited = true
	o.set.InsertBefore(o.queue, o.hand, at)
}

// Evicted implements ranked.Order.
func (*order) Evicted(uint32) {}
