package s3fifo

import (
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/evict/ranked"
)

// ghost remembers fingerprints of evicted objects, the oldest in front.
type ghost struct {
	set   *ranked.Set[struct{}]
	queue ranked.List
}

func newGhost() ghost {
	s := ranked.NewSet[struct{}]()
	return ghost{set: s, queue: s.NewList()}
}

// fold makes the 29 bits that an object keeps of its fingerprint: 0 for unknown, and only then. At
// a million remembered objects, one in 500 new ones is mistaken for an old one.
func fold(fingerprint uint64) uint32 {
	short := uint32(fingerprint^fingerprint>>printBits^fingerprint>>(2*printBits)) & (1<<printBits - 1)
	if short == 0 && fingerprint != 0 {
		return 1
	}
	return short
}

// add remembers a fingerprint as the most recent one.
func (g *ghost) add(fp uint32) {
	if fp == 0 {
		return
	}
	g.take(fp)
	if at := g.set.Add(evict.ID(fp), 0); at != 0 {
		g.set.PushBack(g.queue, at)
	}
}

// take forgets a fingerprint and reports whether it was remembered.
func (g *ghost) take(fp uint32) bool {
	at := g.set.Find(evict.ID(fp))
	if at == 0 {
		return false
	}
	g.set.Drop(at)
	return true
}

// trim forgets the oldest until at most limit are left.
func (g *ghost) trim(limit uint64) {
	for g.set.Len() > limit {
		g.set.Drop(g.set.Front(g.queue))
	}
}
