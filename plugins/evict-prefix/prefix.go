// Package prefix is the eviction policy evict/prefix, made for the pages of prompts: it learns from
// the requests which pages come back, and when, and evicts those of which it expects the fewest
// hits for the space they take.
//
// What happens to a use of an object:
//
//   - It joins the other pages of its request (request), which are told apart by which page
//     follows which. When the request is over, each page gets a class (classOf).
//   - Pages are ranked in cells, one for each class and bucket of ages (cells). They grow
//     older by whole lists, so that nothing is done for a single one.
//   - Some uses are watched as samples, whether their object is evicted or not (samples).
//     They show which part of the pages of a class comes back at which age (odds), and so
//     what the objects of each cell are worth. The victim is an object of the cell worth
//     least.
//   - How often an evicted object was used is remembered by its fingerprint (ghosts).
//
// The clock counts uses, and nothing is random: the same calls have the same victims. An event
// costs constant time but for the odds, which are computed anew every few hundred events, seldom in
// large caches. Serving a stable number of objects allocates nothing.
package prefix

import (
	_ "embed" // for manifest.json

	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/evict/ranked"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Config is empty: the policy learns from the requests what others would tune.
type Config = plugin.NoConfig

//go:generate go run ./cmd/mooncake-plugin-evict-prefix --manifest manifest.json
//go:embed manifest.json
var manifestJSON string

// manifest describes the plugin. The host finds the same text in the program's bytes.
func manifest() plugin.Manifest { return plugin.MustParseManifest(manifestJSON) }

// Factory returns the factory of evict/prefix.
func Factory() evict.Factory {
	return evict.Define(manifest(),
		func() *Config { return new(Config) },
		func(*Config) (evict.Policy, error) { return newPolicy(), nil })
}

// order implements ranked.Order, which also keeps its calls apart from each other.
type order struct {
	set      *objects
	now      uint64 // the clock: uses so far
	cells    cells
	requests requests
	ghosts   ghosts
	learner  learner
	stale    bool // the order of the cells is due to be computed anew, before it is used next
}

func newPolicy() evict.Policy {
	return ranked.New(func(s *objects) ranked.Order { return newOrder(s) })
}

func newOrder(s *objects) *order {
	o := &order{set: s, ghosts: newGhosts(), learner: newLearner()}
	o.cells.init(s)
	o.requests.init(s)
	o.cells.fit(&o.learner.odds.ages, 0)
	o.weigh()
	return o
}

// Insert implements ranked.Order.
func (o *order) Insert(at uint32, ev *evict.Event) {
	s := &o.set.At(at).State
	s.key = keyOf(ev)
	s.uses = o.ghosts.take(s.key)
	o.use(at, ev, true)
}

// Access implements ranked.Order.
func (o *order) Access(at uint32, ev *evict.Event) { o.use(at, ev, o.set.Linked(at)) }

// use counts a use of an object and, unless it is proposed, puts it among the pages of its request.
func (o *order) use(at uint32, ev *evict.Event, ranked bool) {
	if o.now++; o.now%tick == 0 {
		o.age()
	}
	e := o.set.At(at)
	o.learner.use(e.State.key, o.now)
	q := o.requests.of(ev.Parent)
	if q == nil {
		q = o.begin(ev.Parent)
	}
	q.last, q.time = e.ID, o.now
	q.count++
	if e.State.uses == 0 {
		q.added++
	}
	e.State.uses = min(e.State.uses+1, maxUses)
	if !ranked {
		return
	}
	if o.set.Linked(at) {
		o.set.Unlink(at)
	}
	o.set.InsertBefore(q.pages, o.set.Front(q.pages), at)
}

// Next implements ranked.Order. Pages of open requests and retained objects go when nothing else is
// left.
func (o *order) Next() uint32 {
	if o.stale {
		o.weigh()
	}
	if at := o.cells.next(); at != 0 {
		return at
	}
	for i := range o.requests.open {
		if at := o.set.Front(o.requests.open[i].pages); at != 0 {
			return at
		}
	}
	return o.cells.nextRetained()
}

// Leave implements ranked.Order.
func (*order) Leave(uint32) {}

// Spare implements ranked.Order.
func (o *order) Spare(at uint32) { o.cells.retain(at, o.now) }

// Evicted implements ranked.Order.
func (o *order) Evicted(at uint32) {
	s := &o.set.At(at).State
	o.ghosts.add(s.key, s.uses)
}

// begin opens a request in the place of the one that waits longest. Pages that go on where an
// earlier request ended show that its last page was a full one.
func (o *order) begin(parent evict.ID) *request {
	q := o.requests.oldest()
	o.finish(q)
	at := o.set.Find(parent)
	if at == 0 {
		return q
	}
	q.count = 1
	if s := &o.set.At(at).State; s.class == lastPage {
		s.class = classOf(s.uses, 2, 0, false)
		if o.set.Linked(at) {
			o.set.Unlink(at)
			o.cells.put(at)
		}
	}
	return q
}

// finish ranks the pages of a request that is over, the last one foremost.
func (o *order) finish(q *request) {
	for at := o.set.Front(q.pages); at != 0; at = o.set.Front(q.pages) {
		e := o.set.At(at)
		s := &e.State
		s.class = classOf(s.uses, q.count, q.added, e.ID == q.last)
		o.set.Unlink(at)
		o.cells.put(at)
		o.learner.watch(s, q.time)
	}
	*q = request{pages: q.pages}
}

// age does what is due at this time.
func (o *order) age() {
	for i := range o.requests.open {
		if q := &o.requests.open[i]; q.last != 0 && o.now-q.time >= idleEvents {
			o.finish(q)
		}
	}
	o.cells.grow(o.now, &o.learner.odds.ages)
	if live := o.set.Len(); o.learner.learn(o.now, live) {
		o.ghosts.fit(live)
		o.cells.fit(&o.learner.odds.ages, live)
		o.stale = true
	}
}

// weigh orders the cells by the odds of now. A cache that evicts nothing does not need it.
func (o *order) weigh() {
	o.learner.odds.weigh()
	o.cells.rank(&o.learner.odds)
	o.stale = false
}

// keyOf returns what an object is recognised by.
func keyOf(ev *evict.Event) uint32 {
	if ev.Fingerprint == 0 {
		return uint32(mix(^uint64(ev.ID)))
	}
	return uint32(mix(ev.Fingerprint))
}
