package prefix

import "math/bits"

// learner decides which uses are sampled and when the odds are computed anew. Periods are
// in uses.
type learner struct {
	samples samples
	odds    odds
	rate    uint64 // one of so many uses is sampled, a power of two
	passAt  [buckets]uint64
	weighAt uint64
	fadeAt  uint64
}

const (
	// sampleSpan is over how many uses the samples reach back, in numbers of objects.
	sampleSpan = 24
	// maxWeight bounds how many uses a sample stands for.
	maxWeight = 8
	minWeigh  = 512
	minFade   = 1 << 14
)

func newLearner() learner {
	l := learner{samples: newSamples(), rate: 1, fadeAt: minFade}
	l.odds.ages = newAges()
	return l
}

// use ends the watch over an object that is used again.
func (l *learner) use(key uint32, now uint64) {
	if x := l.samples.take(key); x.weight != 0 {
		l.odds.used(x.class, l.odds.ages.bucket(uint32(now)-x.time), x.weight)
	}
}

// watch samples the use of an object at a time.
func (l *learner) watch(s *state, time uint64) {
	if mix(time+uint64(s.key))&(l.rate-1) == 0 {
		l.samples.add(s.key, uint32(time), s.class, uint8(min(l.rate, maxWeight)))
	}
}

// learn takes in what the samples show, given the number of objects in the cache, and
// reports whether the odds were computed anew.
func (l *learner) learn(now, live uint64) bool {
	for b := range buckets - 1 {
		if now >= l.passAt[b] {
			l.passAt[b] = now + l.odds.ages.period(b)
			l.samples.pass(b, uint32(now), &l.odds)
		}
	}
	if now >= l.fadeAt {
		l.odds.fade()
		l.fadeAt = now + max(minFade, 4*live)
	}
	if now < l.weighAt {
		return false
	}
	l.odds.weigh()
	l.rate = 1 << bits.Len64(live*sampleSpan/sampleRing)
	l.weighAt = now + min(max(minWeigh, live/8), max(4*tick, now/8)) // often in the beginning
	return true
}
