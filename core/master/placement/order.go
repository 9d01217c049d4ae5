package placement

import (
	"math/rand/v2"

	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/sdk/alloc"
)

// order collects candidates: first those that were accepted at once, then those that their weight
// deferred. Those whose node is silent are candidates only if there are no others: a put there would
// wait in vain, even if it is the only node with free space, and eviction makes space on the others.
type order struct {
	out          []alloc.SpaceID
	held, silent []alloc.SpaceID
}

// newOrder begins an order of n segments.
func newOrder(n int, scratch []alloc.SpaceID) order {
	if cap(scratch) == 0 {
		scratch = make([]alloc.SpaceID, 0, min(n, maxTries))
	}
	return order{out: scratch[:0]}
}

// add adds one segment, which must not have been added yet. It defers the segment with a
// probability of 1 minus its weight.
func (o *order) add(s *segments.Segment) {
	switch w := s.Weight(); {
	case w >= 1 || w > 0 && rand.Float64() < w:
		o.out = append(o.out, s.Space)
	case w > 0:
		o.held = append(o.held, s.Space)
	default:
		o.silent = append(o.silent, s.Space)
	}
}

// full reports whether no more candidates are needed.
func (o *order) full() bool { return len(o.out) >= maxTries }

// list returns the candidates.
func (o *order) list() []alloc.SpaceID {
	if len(o.out)+len(o.held) == 0 {
		o.held = o.silent
	}
	return append(o.out, o.held[:min(len(o.held), max(maxTries-len(o.out), 0))]...)
}

// startTries bounds the draws for a start among n segments.
const startTries = 16

// draw returns a random index into v.Open. It draws segments in proportion to their weight, so that
// the load that one does not get is spread over all others rather than moved to the next one. ok is
// false if so many draws were refused that the index is arbitrary.
func draw(v *segments.View) (at int, ok bool) {
	for range startTries {
		at = rand.IntN(len(v.Open))
		if w := v.Open[at].Weight(); w >= 1 || rand.Float64() < w {
			return at, true
		}
	}
	return at, false
}

// Random scans the segments in a row from a random start.
type Random struct{}

// Order implements Strategy. It allocates nothing while all weights are full.
func (Random) Order(v *segments.View, _ Object, scratch []alloc.SpaceID) []alloc.SpaceID {
	n := len(v.Open)
	if n == 0 {
		return nil
	}
	if v.Even() {
		start := rand.IntN(n)
		return v.Ring[start : start+min(n, maxTries) : start+min(n, maxTries)]
	}
	o := newOrder(n, scratch)
	start, ok := draw(v)
	first := 0
	if ok {
		o.out, first = append(o.out, v.Open[start].Space), 1
	}
	for i := first; i < n && !o.full(); i++ {
		o.add(v.Open[(start+i)%n])
	}
	return o.list()
}
