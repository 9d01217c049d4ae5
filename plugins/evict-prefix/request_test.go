package prefix

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/evict/ranked"
)

// probe is an order with its set at hand.
type probe struct {
	*order
	p evict.Policy
	t *testing.T
}

func newProbe(t *testing.T) probe {
	pr := probe{t: t}
	pr.p = ranked.New(func(s *objects) ranked.Order {
		pr.order = newOrder(s)
		return pr.order
	})
	return pr
}

func (p probe) record(evs ...evict.Event) { assert.NoError(p.t, p.p.Record(p.t.Context(), evs)) }

// class ends all requests and returns the class of an object.
func (p probe) class(id evict.ID) uint8 {
	for i := range p.requests.open {
		p.finish(&p.requests.open[i])
	}
	return p.set.At(p.set.Find(id)).State.class
}

func page(id, parent evict.ID) evict.Event {
	return evict.Event{Op: evict.Insert, ID: id, Parent: parent, Size: 1, Fingerprint: uint64(id)}
}

// TestInterleavedRequests: pages belong to the request of the page before them, whatever
// comes in between.
func TestInterleavedRequests(t *testing.T) {
	p := newProbe(t)
	p.record(page(1, 0), page(11, 0), page(2, 1), page(12, 11), page(3, 2), page(21, 0), page(4, 3), page(13, 12))
	assert.Equal(t, classOf(1, 4, 4, false), p.class(1))
	assert.Equal(t, classOf(1, 4, 4, false), p.class(3))
	assert.EqualValues(t, lastPage, p.class(4))
	assert.Equal(t, classOf(1, 3, 3, false), p.class(12))
	assert.EqualValues(t, lastPage, p.class(13))
	assert.Equal(t, classOf(1, 1, 1, true), p.class(21))
}

// TestARequestThatGoesOnAfterAPause: the page before the pause was not the last.
func TestARequestThatGoesOnAfterAPause(t *testing.T) {
	p := newProbe(t)
	p.record(page(1, 0), page(2, 1))
	assert.EqualValues(t, lastPage, p.class(2))
	p.record(page(3, 2))
	assert.Equal(t, classOf(1, 2, 0, false), p.class(2))
	assert.EqualValues(t, lastPage, p.class(3), "not a request of one page")
}

// TestUsesOutliveEviction: what comes back under a new ID is known by its fingerprint.
func TestUsesOutliveEviction(t *testing.T) {
	p := newProbe(t)
	p.record(page(1, 0), page(1, 0), page(1, 0))
	got, err := p.p.Propose(t.Context(), make([]evict.Candidate, 0, 1), 1)
	assert.NoError(t, err)
	assert.Len(t, got, 1)
	assert.NoError(t, p.p.Resolve(t.Context(), []evict.Verdict{{ID: 1, Evicted: true}}))
	back := page(9, 0)
	back.Fingerprint = 1
	p.record(back, page(10, 0))
	assert.EqualValues(t, 4, p.set.At(p.set.Find(9)).State.uses)
	assert.EqualValues(t, 1, p.set.At(p.set.Find(10)).State.uses)
}

// TestOpenRequestsAreBounded: of more requests than can be open, the one that waits
// longest is over.
func TestOpenRequestsAreBounded(t *testing.T) {
	p := newProbe(t)
	for id := range evict.ID(openRequests + 1) {
		p.record(page(1+id, 0))
	}
	assert.Nil(t, p.requests.of(1))
	for id := range evict.ID(openRequests) {
		assert.NotNil(t, p.requests.of(2+id))
	}
}

// TestChainsGoFromTheirEnd: of the pages of one request that are worth the same, the last
// goes first.
func TestChainsGoFromTheirEnd(t *testing.T) {
	p := newProbe(t)
	p.record(page(1, 0), page(2, 1), page(3, 2), page(4, 3), page(5, 4))
	p.class(1)
	var order []evict.ID
	got, err := p.p.Propose(t.Context(), make([]evict.Candidate, 0, 5), 5)
	assert.NoError(t, err)
	for _, c := range got {
		if c.ID != 5 { // of a class of its own
			order = append(order, c.ID)
		}
	}
	assert.Equal(t, []evict.ID{4, 3, 2, 1}, order)
}
