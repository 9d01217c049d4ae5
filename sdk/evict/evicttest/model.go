package evicttest

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/internal/rig"
)

// model is what the contract says a policy knows.
type model struct {
	subject
	ranked   map[evict.ID]uint64
	proposed map[evict.ID]uint64
	// spared lists ranked objects that were spared and not touched since, which no other
	// ranked object that is older than the sparing may follow.
	spared map[evict.ID]bool
}

// testModel runs random sequences against the policy and the model side by side. One
// policy serves all sequences, since a new one may mean a new process; each sequence
// removes its objects in the end.
func testModel(t conformance.T, f *subjects) {
	s := newSubject(t, f)
	rig.Sequences(t, func(rt *rapid.T, seq *rig.Sequence) {
		m := &model{
			subject: subject{t: seq, p: s.p, patience: s.patience},
			ranked:  map[evict.ID]uint64{}, proposed: map[evict.ID]uint64{}, spared: map[evict.ID]bool{},
		}
		defer m.forgetAll(s)
		rt.Repeat(map[string]func(*rapid.T){
			"record":  m.stepRecord,
			"propose": m.stepPropose,
			"resolve": m.stepResolve,
			"":        m.check,
		})
	})
}

func (m *model) forgetAll(s subject) {
	events := make([]evict.Event, 0, idSpace)
	for id := evict.ID(1); id <= idSpace; id++ {
		events = append(events, evict.Event{Op: evict.Remove, ID: id})
	}
	s.record(events...)
}

// idSpace is small, so that events often meet the same object.
const idSpace = 24

func (m *model) stepRecord(rt *rapid.T) {
	events := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) evict.Event {
		return evict.Event{
			Op:     evict.Op(rapid.IntRange(1, 3).Draw(rt, "op")),
			ID:     evict.ID(rapid.IntRange(0, idSpace).Draw(rt, "id")),
			Size:   rapid.Uint64Range(0, 100).Draw(rt, "size"),
			Parent: evict.ID(rapid.IntRange(0, idSpace).Draw(rt, "parent")),

			Fingerprint: rapid.Uint64Range(0, 2*idSpace).Draw(rt, "fingerprint"),
		}
	}), 0, 12).Draw(rt, "events")
	m.record(events...)
	for _, ev := range events {
		_, isRanked := m.ranked[ev.ID]
		_, isProposed := m.proposed[ev.ID]
		switch {
		case ev.ID == 0:
		case ev.Op == evict.Remove:
			delete(m.ranked, ev.ID)
			delete(m.proposed, ev.ID)
			delete(m.spared, ev.ID)
		case isRanked || isProposed:
			delete(m.spared, ev.ID)
			m.blur()
		case ev.Op == evict.Insert:
			m.ranked[ev.ID] = ev.Size
			m.blur()
		}
	}
}

// blur forgets which objects were spared: a later event may rank its object anywhere, before or
// after the spared ones.
func (m *model) blur() { clear(m.spared) }

func (m *model) stepPropose(rt *rapid.T) {
	bytes := rapid.Uint64Range(0, 600).Draw(rt, "bytes")
	limit := rapid.IntRange(0, idSpace).Draw(rt, "limit")
	got := m.propose(bytes, limit)
	var sum uint64
	for i, c := range got {
		size, ok := m.ranked[c.ID]
		switch {
		case sum >= bytes:
			m.failf("Propose of %d bytes returns %s: the first %d of them are enough", bytes, listed(got, candidateText), i)
		case !ok:
			m.failf("Propose returns %s, which is not ranked", candidateText(c))
		case c.Size != size:
			m.failf("Propose returns %s, and it was inserted with %d bytes", candidateText(c), size)
		case m.spared[c.ID] && len(m.ranked) != len(m.spared):
			m.failf("Propose returns %s, which was retained: others come before it", candidateText(c))
		}
		delete(m.ranked, c.ID)
		delete(m.spared, c.ID)
		m.proposed[c.ID] = c.Size
		sum += size
	}
	if sum < bytes && len(got) < limit && len(m.ranked) > 0 {
		m.failf("Propose of %d bytes, at most %s, returns %s, and %s still ranked", bytes, count(limit, "victim"), listed(got, candidateText), are(len(m.ranked)))
	}
}

func are(n int) string {
	if n == 1 {
		return "1 object is"
	}
	return fmt.Sprintf("%d objects are", n)
}

func (m *model) stepResolve(rt *rapid.T) {
	verdicts := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) evict.Verdict {
		return evict.Verdict{ID: evict.ID(rapid.IntRange(0, idSpace).Draw(rt, "id")), Evicted: rapid.Bool().Draw(rt, "evicted")}
	}), 0, 12).Draw(rt, "verdicts")
	m.resolve(verdicts...)
	for _, v := range verdicts {
		size, ok := m.proposed[v.ID]
		if !ok {
			continue
		}
		delete(m.proposed, v.ID)
		if !v.Evicted {
			m.ranked[v.ID] = size
			m.spared[v.ID] = true
		}
	}
}

func (m *model) check(*rapid.T) {
	var bytes uint64
	for _, objects := range []map[evict.ID]uint64{m.ranked, m.proposed} {
		for _, size := range objects {
			bytes += size
		}
	}
	m.holds(uint64(len(m.ranked)+len(m.proposed)), bytes, uint64(len(m.proposed)))
}
