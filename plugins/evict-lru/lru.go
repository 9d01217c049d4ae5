// Package lru is the eviction policy evict/lru: the object that was read or written longest ago
// goes first.
//
// The order is exact, not sampled. Every operation on one object takes constant time, and serving a
// stable number of objects allocates nothing (see sdk/evict/ranked).
package lru

import (
	_ "embed" // for manifest.json

	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/evict/ranked"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Config is empty: recency has nothing to tune.
type Config = plugin.NoConfig

//go:generate go run ./cmd/mooncake-plugin-evict-lru --manifest manifest.json
//go:embed manifest.json
var manifestJSON string

// manifest describes the plugin. The host finds the same text in the program's bytes.
func manifest() plugin.Manifest { return plugin.MustParseManifest(manifestJSON) }

// Factory returns the factory of evict/lru.
func Factory() evict.Factory {
	return evict.Define(manifest(),
		func() *Config { return new(Config) },
		func(*Config) (evict.Policy, error) { return newPolicy(), nil })
}

// none: an object's place in the list is all there is to know.
type none struct{}

// order implements ranked.Order with one list, the least recent object in front.
type order struct {
	set    *ranked.Set[none]
	recent ranked.List
}

func newPolicy() evict.Policy {
	return ranked.New(func(s *ranked.Set[none]) ranked.Order {
		return &order{set: s, recent: s.NewList()}
	})
}

// Insert implements ranked.Order.
func (o *order) Insert(at uint32, _ *evict.Event) { o.set.PushBack(o.recent, at) }

// Access implements ranked.Order. A proposed object stays where it is: Spare makes it the most
// recent anyway.
func (o *order) Access(at uint32, _ *evict.Event) {
	if o.set.Linked(at) {
		o.set.Unlink(at)
		o.set.PushBack(o.recent, at)
	}
}

// Next implements ranked.Order.
func (o *order) Next() uint32 { return o.set.Front(o.recent) }

// Leave implements ranked.Order.
func (*order) Leave(uint32) {}

// Spare implements ranked.Order.
func (o *order) Spare(at uint32) { o.set.PushBack(o.recent, at) }

// Evicted implements ranked.Order.
func (*order) Evicted(uint32) {}
