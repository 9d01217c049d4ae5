package placement

import (
	"cmp"
	"slices"

	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/sdk/alloc"
)

// FreeRatioFirst takes the emptiest of a few random segments, then scans like Random. Of a
// segment with a weight only that part of its free share counts.
type FreeRatioFirst struct {
	// OnTiers takes the segment whose node has the largest free share on its storage tiers.
	OnTiers bool
}

// sampleSize is how many segments FreeRatioFirst compares for each copy.
const sampleSize = 6

// maxSample bounds the sample for an object of many copies.
const maxSample = 4 * sampleSize

// rated is a segment of the sample. The rating is taken once: others put meanwhile.
type rated struct {
	seg   *segments.Segment
	ratio float64
}

func (f FreeRatioFirst) free(v *segments.View, s *segments.Segment) float64 {
	if f.OnTiers {
		return v.FreeOnTiers(s.Client)
	}
	return s.FreeRatio()
}

// Order implements Strategy.
func (f FreeRatioFirst) Order(v *segments.View, object Object, scratch []alloc.SpaceID) []alloc.SpaceID {
	n := len(v.Open)
	if n == 0 {
		return nil
	}
	k := min(sampleSize*max(object.Copies, 1), maxSample, n)
	var sample [maxSample]rated
	start, _ := draw(v)
	stride := n / k
	for i := range k {
		// A stride keeps the sample distinct without remembering what was drawn.
		s := v.Open[(start+i*stride)%n]
		sample[i] = rated{s, f.free(v, s) * s.Weight()}
	}
	slices.SortStableFunc(sample[:k], func(a, b rated) int { return cmp.Compare(b.ratio, a.ratio) })
	o := newOrder(n, scratch)
	for _, r := range sample[:k] {
		if r.seg.Weight() > 0 {
			o.out = append(o.out, r.seg.Space)
		} else {
			o.silent = append(o.silent, r.seg.Space)
		}
	}
	for i := 0; i < n && !o.full(); i++ {
		if i%stride == 0 && i/stride < k {
			continue // in the sample
		}
		o.add(v.Open[(start+i)%n])
	}
	return o.list()
}
