package lru

import (
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/evict/ranked"
)

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

// Access implements ranked.Order. A proposed object is left alone: being spared makes it
// the most recent anyway.
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
