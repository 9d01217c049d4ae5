package prefix

import (
	"math/bits"
)

// samples watches some of the uses, whether or not the cache keeps their objects, and reports how
// they went on: used again at some age, or not used again through a bucket of ages. What it learns
// does not depend on what the policy evicts.
//
// Samples lie in a ring in the order of their births. Each bucket has a cursor, which passes a
// sample when the sample leaves the bucket.
type samples struct {
	ring   []sample
	slots  []uint32 // open addressing: index in ring + 1
	born   uint64   // samples ever taken
	cursor [buckets]uint64
}

type sample struct {
	key    uint32
	time   uint32 // low bits of the clock at the use
	class  uint8
	weight uint8 // 0 when used again or replaced
}

const (
	sampleBits = 15
	sampleRing = 1 << sampleBits
	sampleMask = sampleRing - 1
	slotMask   = 2*sampleRing - 1
)

func newSamples() samples {
	return samples{ring: make([]sample, sampleRing), slots: make([]uint32, 2*sampleRing)}
}

// add watches a use. A key that is watched already stays as it is.
func (s *samples) add(key, time uint32, class, weight uint8) {
	at := s.find(key)
	if s.slots[at] != 0 {
		return
	}
	i := uint32(s.born & sampleMask)
	if old := &s.ring[i]; old.weight != 0 {
		s.drop(s.find(old.key))
		at = s.find(key)
	}
	s.ring[i] = sample{key: key, time: time, class: class, weight: weight}
	s.slots[at] = i + 1
	s.born++
	if s.born > sampleRing {
		for b := range s.cursor {
			s.cursor[b] = max(s.cursor[b], s.born-sampleRing)
		}
	}
}

// take ends the watch over a key and returns its sample, with weight 0 if there was none.
func (s *samples) take(key uint32) sample {
	at := s.find(key)
	if s.slots[at] == 0 {
		return sample{}
	}
	i := s.slots[at] - 1
	s.drop(at)
	out := s.ring[i]
	s.ring[i].weight = 0
	return out
}

// pass tells the odds which samples have left bucket b unused.
func (s *samples) pass(b int, now uint32, o *odds) {
	for ; s.cursor[b] < s.born; s.cursor[b]++ {
		x := &s.ring[s.cursor[b]&sampleMask]
		if x.weight == 0 {
			continue
		}
		if now-x.time < o.ages[b+1] {
			return
		}
		o.passed(x.class, b, x.weight)
	}
}

func spread(key uint32) uint32 { return key * 0x9E3779B1 >> (32 - sampleBits - 1) }

// find returns the slot of key, or the free slot where it would go.
func (s *samples) find(key uint32) uint32 {
	at := spread(key)
	for s.slots[at] != 0 && s.ring[s.slots[at]-1].key != key {
		at = (at + 1) & slotMask
	}
	return at
}

// drop frees a slot and moves later ones back.
func (s *samples) drop(at uint32) {
	for next := (at + 1) & slotMask; s.slots[next] != 0; next = (next + 1) & slotMask {
		home := spread(s.ring[s.slots[next]-1].key)
		if (next-home)&slotMask >= (next-at)&slotMask {
			s.slots[at] = s.slots[next]
			at = next
		}
	}
	s.slots[at] = 0
}

// learner decides which uses are sampled and when the cells are weighed anew. Periods are in uses.
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

// learn takes in what the samples show, given the number of objects in the cache, and reports
// whether it is time to weigh the cells anew.
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
	l.rate = 1 << bits.Len64(live*sampleSpan/sampleRing)
	l.weighAt = now + min(max(minWeigh, live/8), max(4*tick, now/8)) // often in the beginning
	return true
}
