package prefix

import "math"

// Ages are counted in events and sorted into buckets whose bounds grow by a factor of
// about 1.26, three buckets for a doubling.
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

// period is how many events lie between two times at which objects leave a bucket that is
// not the last. They wait for one to two periods, which is the width on average.
func (a *ages) period(b int) uint64 { return uint64(max(tick, a.width(b)*2/3)) }
