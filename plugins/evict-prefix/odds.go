package prefix

import (
	"math"
	"slices"
)

// Ages are counted in events and sorted into buckets whose bounds grow by a factor of about 1.26,
// three buckets for a doubling.
const (
	firstBound = 64
	perDouble  = 3
	buckets    = 74 // the last one starts at 2^30 events
	tick       = 16 // objects and samples grow older in steps of so many events
)

// ages holds the first age of each bucket.
type ages [buckets]uint32

func newAges() (a ages) {
	for b := 1; b < buckets; b++ {
		a[b] = uint32(firstBound * math.Exp2(float64(b-1)/perDouble))
	}
	return a
}

func (a *ages) bucket(age uint32) int {
	lo, hi := 0, buckets-1
	for lo < hi {
		if mid := (lo + hi + 1) / 2; a[mid] <= age {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return lo
}

// width is how many events an object spends in a bucket that is not the last.
func (a *ages) width(b int) uint32 { return a[b+1] - a[b] }

// period is how many events lie between two times at which objects leave a bucket that is not the
// last. They wait for one to two periods, which is the width on average.
func (a *ages) period(b int) uint64 { return uint64(max(tick, a.width(b)*2/3)) }

// odds learns, for each class and bucket of ages, which part of the objects that reach the bucket
// are used within it, and derives from it what a place in the cache is worth. Counts are in events;
// old ones fade.
type odds struct {
	ages   ages
	hits   [classes][buckets]float32 // used again in the bucket
	passes [classes][buckets]float32 // used again in it, or left it unused
	order  [classes * buckets]uint64 // worth and cell, least worth first
}

// What is not known yet is taken from the average of all classes, and what is not known of that
// from a fixed guess. The weights are the numbers of events that a guess counts for. They are large
// because the pages of a prompt share one fate: a hundred of them say little more than one.
const (
	guess       = 0.015 // a chance that is the same in every bucket makes recency the rule
	guessWeight = 2000
	classWeight = 3000
	scaleWeight = 10
	maxChance   = 0.9
)

func (o *odds) used(class uint8, b int, weight uint8) {
	o.hits[class][b] += float32(weight)
	o.passes[class][b] += float32(weight)
}

func (o *odds) passed(class uint8, b int, weight uint8) {
	o.passes[class][b] += float32(weight)
}

// fade halves what was learned.
func (o *odds) fade() {
	for c := range classes {
		for b := range buckets {
			o.hits[c][b] /= 2
			o.passes[c][b] /= 2
		}
	}
}

// weigh computes the worth of all cells and sorts them.
func (o *odds) weigh() {
	all := o.average()
	for c := range classes {
		chances := o.chances(c, &all)
		o.weighClass(c, &chances)
	}
	slices.Sort(o.order[:])
}

// average returns the chances of all classes together.
func (o *odds) average() (all [buckets]float64) {
	for b := range buckets {
		h, p := guess*guessWeight, float64(guessWeight)
		for c := range classes {
			h += float64(o.hits[c][b])
			p += float64(o.passes[c][b])
		}
		all[b] = h / p
	}
	return all
}

// chances returns, for each bucket, which part of the objects of a class that reach it are used in
// it.
func (o *odds) chances(c int, all *[buckets]float64) (chances [buckets]float64) {
	seen, expected := float64(scaleWeight), float64(scaleWeight)
	for b := range buckets {
		seen += float64(o.hits[c][b])
		expected += float64(o.passes[c][b]) * all[b]
	}
	scale := seen / expected
	for b := range buckets {
		prior := min(maxChance, all[b]*scale)
		chances[b] = (float64(o.hits[c][b]) + classWeight*prior) / (float64(o.passes[c][b]) + classWeight)
	}
	return chances
}

// width is how many events an object spends in a bucket.
func (o *odds) width(b int) float64 {
	if b == buckets-1 {
		return float64(o.ages[b])
	}
	return float64(o.ages.width(b))
}

// weighClass fills the order with the cells of one class.
//
// The worth of an object at some age is the best rate, over all ages up to which one could keep it,
// of expected uses to expected events in the cache. It is computed from the last bucket back: a
// span of buckets takes in the spans behind it as long as they are worth more than itself.
func (o *odds) weighClass(c int, chances *[buckets]float64) {
	type span struct{ uses, time, left float64 }
	var spans [buckets]span
	top := 0
	for b := buckets - 1; b >= 0; b-- {
		s := span{uses: chances[b], time: o.width(b) * (1 - chances[b]/2), left: 1 - chances[b]}
		for ; top > 0; top-- {
			next := &spans[top-1]
			if next.uses*s.time <= s.uses*next.time {
				break
			}
			s.uses += s.left * next.uses
			s.time += s.left * next.time
			s.left *= next.left
		}
		spans[top] = s
		top++
		worth := math.Float32bits(float32(s.uses / s.time))
		o.order[c*buckets+b] = uint64(worth)<<32 | uint64(c*buckets+b)
	}
}

// A class is what tells objects apart before their age does. It is set when the request that used
// the object last is over: by how often the object was used so far, how many pages the request
// added to what was known, and whether the object was the request's last page, which is rarely full
// and so rarely comes back.
const (
	useSteps  = 6
	sizeSteps = 5
	lastPage  = useSteps * sizeSteps // the end of a request of several pages
	lonePage  = lastPage + 1         // a request of one page, one class for each use step
	classes   = lonePage + useSteps

	maxUses = 15 // what a ghost can store
)

// classOf returns the class of an object that was used `uses` times, after a request of `pages`
// pages of which `added` were never seen before.
func classOf(uses uint8, pages, added uint32, last bool) uint8 {
	u := step(uint32(uses), 2, 3, 4, 7, maxUses)
	switch {
	case pages == 1:
		return lonePage + u
	case last:
		return lastPage
	}
	return u*sizeSteps + step(added, 4, 9, 21, 51)
}

// step returns how many of the bounds n reaches.
func step(n uint32, bounds ...uint32) (s uint8) {
	for _, b := range bounds {
		if n < b {
			break
		}
		s++
	}
	return s
}

func mix(h uint64) uint64 {
	h *= 0x9E3779B97F4A7C15
	h ^= h >> 32
	h *= 0xD6E8FEB86659FD93
	return h ^ h>>32
}
