// Package placement decides in which segments the copies of an object may go. Where
// inside a segment is the allocator's business.
package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/sdk/alloc"
)

// maxTries bounds the spaces that are tried for one copy.
const maxTries = 100

// Strategy orders the segments for one copy of one object. Implementations have no state
// and are safe for concurrent use.
type Strategy interface {
	// Order returns the spaces to try, best first, at most maxTries. It may append to
	// scratch[:0] and return that, or return memory of the view: the result is read only
	// and valid until the next call with the same scratch.
	Order(v *segments.View, scratch []alloc.SpaceID) []alloc.SpaceID
}

// Names lists the strategies that New knows.
func Names() []string { return []string{"random", "free_ratio_first"} }

// New returns a strategy by its name.
func New(name string) (Strategy, error) {
	switch name {
	case "random":
		return Random{}, nil
	case "free_ratio_first":
		return FreeRatioFirst{}, nil
	default:
		return nil, fmt.Errorf("allocation strategy %q is not one of %s", name, strings.Join(Names(), ", "))
	}
}

// Random scans the segments in a row from a random start.
type Random struct{}

// Order implements Strategy.
func (Random) Order(v *segments.View, _ []alloc.SpaceID) []alloc.SpaceID {
	n := len(v.All)
	if n == 0 {
		return nil
	}
	start := rand.IntN(n)
	return v.Ring[start : start+min(n, maxTries) : start+min(n, maxTries)]
}

// FreeRatioFirst takes the emptiest of a few random segments, then scans like Random.
type FreeRatioFirst struct{}

// sampleSize is how many segments FreeRatioFirst compares.
const sampleSize = 6

// Order implements Strategy.
func (FreeRatioFirst) Order(v *segments.View, scratch []alloc.SpaceID) []alloc.SpaceID {
	n := len(v.All)
	if n == 0 {
		return nil
	}
	k := min(sampleSize, n)
	var sample [sampleSize]*segments.Segment
	start := rand.IntN(n)
	for i := range k {
		// A stride keeps the sample distinct without remembering what was drawn.
		sample[i] = v.All[(start+i*max(n/k, 1))%n]
	}
	slices.SortStableFunc(sample[:k], func(a, b *segments.Segment) int {
		switch fa, fb := a.FreeRatio(), b.FreeRatio(); {
		case fa > fb:
			return -1
		case fa < fb:
			return 1
		default:
			return 0
		}
	})
	out := scratch[:0]
	for _, s := range sample[:k] {
		out = append(out, s.Space)
	}
	for _, id := range v.Ring[start : start+n] {
		if len(out) >= maxTries {
			break
		}
		if !slices.Contains(out[:k], id) {
			out = append(out, id)
		}
	}
	return out
}
