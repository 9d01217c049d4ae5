package prefix

import (
	"math/bits"

	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/evict/ranked"
)

// order implements ranked.Order.
type order struct {
	set      *objects
	now      uint64 // events so far
	cells    cells
	requests requests
	odds     odds
	samples  samples
	ghosts   ghosts
	rate     uint32 // every rate-th use is sampled, a power of two
	weighAt  uint64
	fadeAt   uint64
}

// Periods in events.
const (
	minWeigh = 1024
	minFade  = 1 << 16
)

func newPolicy() evict.Policy {
	return ranked.New(func(s *objects) ranked.Order { return newOrder(s) })
}

func newOrder(s *objects) *order {
	o := &order{set: s, samples: newSamples(), ghosts: newGhosts(), rate: 1, fadeAt: minFade}
	o.odds.ages = newAges()
	o.cells.init(s)
	for i := range o.requests.open {
		o.requests.open[i].pages = s.NewList()
	}
	return o
}

// Insert implements ranked.Order.
func (o *order) Insert(at uint32, ev *evict.Event) {
	e := o.set.At(at)
	e.State.key = fold(ev.Fingerprint)
	if ev.Fingerprint == 0 {
		e.State.key = fold(uint64(ev.ID) ^ 1<<63)
	}
	e.State.uses = o.ghosts.take(e.State.key)
	o.use(at, ev, true)
}

// Access implements ranked.Order.
func (o *order) Access(at uint32, ev *evict.Event) {
	o.use(at, ev, o.set.Linked(at))
}

// use counts a use of an object and, unless it is proposed, puts it among the pages of its
// request.
func (o *order) use(at uint32, ev *evict.Event, ranked bool) {
	if o.now++; o.now%tick == 0 {
		o.age()
	}
	e := o.set.At(at)
	s := &e.State
	if x := o.samples.take(s.key); x.weight != 0 {
		o.odds.used(x.class, o.odds.ages.bucket(uint32(o.now)-x.time), x.weight)
	}
	q := o.requests.of(ev.Parent)
	if q == nil {
		q = o.begin(ev.Parent)
	}
	q.last, q.end, q.time = e.ID, at, o.now
	q.count++
	if s.uses == 0 {
		q.added++
	}
	s.uses = min(s.uses+1, maxUses)
	if ranked {
		if o.set.Linked(at) {
			o.set.Unlink(at)
		}
		o.set.InsertBefore(q.pages, o.set.Front(q.pages), at)
	}
}

// Next implements ranked.Order.
func (o *order) Next() uint32 {
	if at := o.cells.next(); at != 0 {
		return at
	}
	for i := range o.requests.open {
		if at := o.set.Front(o.requests.open[i].pages); at != 0 {
			return at
		}
	}
	if at := o.set.Front(o.cells.spared[1]); at != 0 {
		return at
	}
	return o.set.Front(o.cells.spared[0])
}

// Leave implements ranked.Order.
func (*order) Leave(uint32) {}

// Spare implements ranked.Order.
func (o *order) Spare(at uint32) { o.set.PushBack(o.cells.spared[0], at) }

// Evicted implements ranked.Order.
func (o *order) Evicted(at uint32) {
	s := &o.set.At(at).State
	o.ghosts.add(s.key, s.uses)
}

// begin opens a request. Pages that go on where an earlier request ended show that its
// last page was a full one.
func (o *order) begin(parent evict.ID) *request {
	q := o.requests.oldest()
	o.finish(q)
	if at := o.set.Find(parent); at != 0 {
		q.count = 1
		if s := &o.set.At(at).State; s.class == lastPage {
			s.class = classOf(s.uses, 2, 0, false)
			if o.set.Linked(at) {
				o.set.Unlink(at)
				o.cells.put(at)
			}
		}
	}
	return q
}

// finish ranks the pages of a request that is over.
func (o *order) finish(q *request) {
	for at := o.set.Front(q.pages); at != 0; at = o.set.Front(q.pages) {
		e := o.set.At(at)
		s := &e.State
		s.class = classOf(s.uses, q.count, q.added, e.ID == q.last)
		o.set.Unlink(at)
		o.cells.put(at)
		if uint32(mix(o.now+uint64(s.key)))&(o.rate-1) == 0 {
			o.samples.add(s.key, uint32(q.time), s.class, uint8(min(o.rate, maxWeight)))
		}
	}
	q.last, q.count, q.added, q.time = 0, 0, 0, 0
}

// maxWeight bounds what one sample counts for.
const maxWeight = 8

// age does what is due at this time.
func (o *order) age() {
	for i := range o.requests.open {
		if q := &o.requests.open[i]; q.last != 0 && o.now-q.time >= idleEvents {
			o.finish(q)
		}
	}
	for b := buckets - 2; b >= 0; b-- {
		if o.now >= o.cells.due[b] {
			o.samples.pass(b, uint32(o.now), o.odds.ages[b+1], &o.odds)
		}
	}
	o.cells.grow(o.now, &o.odds.ages)
	if o.now >= o.weighAt {
		live := o.set.Len()
		o.ghosts.fit(live)
		o.cells.youngest = o.odds.ages.bucket(uint32(min(live/64, 1<<30)))
		o.rate = 1 << bits.Len64(live*sampleSpan/sampleRing)
		o.odds.weigh()
		o.cells.rank(&o.odds)
		o.weighAt = o.now + max(minWeigh, live/8)
	}
	if o.now >= o.fadeAt {
		o.odds.fade()
		o.fadeAt = o.now + max(minFade, o.set.Len()*4)
	}
}

// sampleSpan is over how many events the samples reach back, in numbers of objects.
const sampleSpan = 16

// fold makes a key of a fingerprint.
func fold(x uint64) uint32 { return uint32(mix(x)) }

func mix(h uint64) uint64 {
	h *= 0x9E3779B97F4A7C15
	h ^= h >> 32
	h *= 0xD6E8FEB86659FD93
	return h ^ h>>32
}
