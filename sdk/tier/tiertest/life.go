package tiertest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/internal/expect"
	"github.com/mooncake-go/mooncake/sdk/internal/rig"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// several keeps n records of different sizes.
func (s *subject) several(n int) []entry {
	var out []entry
	for i := range n {
		out = append(out, s.add(fmt.Sprint("several-", i), uint64(i), 1+i*3001))
	}
	return out
}

func (s *subject) wipe() {
	before := s.tier.Volume()
	s.note("Wipe")
	expect.NoError(s.t, s.tier.Wipe(s.within()), "Wipe")
	after := s.tier.Volume()
	expect.Equal(s.t, before.Generation+1, after.Generation, "the generation counts the calls of Wipe")
	after.Generation--
	expect.Equal(s.t, before, after, "Wipe changes the generation only")
}

func testWipe(s *subject) {
	es := s.several(10)
	s.wipe()
	s.lacks(es...)
	s.counts()
	s.forget(es...)
	again := newEntry(string(es[4].Key), 99, int(es[4].Size))
	s.write(&again)
	s.lacks(es...)
	s.counts(again)
	s.wipe()
	s.wipe()
	s.counts()
	full := s.fillUp()
	s.wipe()
	expect.Zero(s.t, s.stats().Used)
	expect.Len(s.t, s.fillUp(), len(full), "Wipe frees the space")
	s.wipe()
	if s.has(tier.CapSurvives) {
		v := s.tier.Volume()
		last := s.add("last", 1, 1000)
		next := s.reopen()
		expect.Equal(s.t, v, next.tier.Volume(), "after the next start")
		next.lacks(es...)
		next.lacks(again)
		next.counts(last)
	}
}

func testWipeInFlight(s *subject) {
	const n, size = 32, 65_536
	for range 5 {
		var ops []tier.Op
		for i := range n {
			ops = append(ops, newEntry(fmt.Sprint("wiped-", i), 1, size).writes(s.mem[i*size:]))
		}
		ids, early := s.submit(ops...)
		s.wipe()
		for i, c := range s.finish(ops, ids, early) {
			if c.Status == tier.OK {
				s.lacks(entry{Record: ops[i].Record, at: c.At})
			} else {
				expect.Among(s.t, []errs.Code{errs.UnavailableInCurrentStatus, errs.NoAvailableHandle}, errs.CodeOf(c.Err), "%v", c.Err)
			}
		}
		s.counts()
	}
}

func testFlush(s *subject) {
	expect.NoError(s.t, s.tier.Flush(s.within()))
	es := s.several(5)
	o := es[4].reads(s.mem)
	ids, early := s.submit(o)
	expect.NoError(s.t, s.tier.Flush(s.within()))
	s.ok(s.finish([]tier.Op{o}, ids, early)[0])
	s.holds(es...)
	s.counts(es...)
	s.forget(es[0])
	expect.NoError(s.t, s.tier.Flush(s.within()))
	s.counts(es[1:]...)
}

// begin submits reads and writes of a region of their own, as many as are accepted up to n.
func (s *subject) begin(e entry, n int) (mem []byte, accepted int) {
	size := int(e.Size)
	mem = s.region(2, n*size)
	ops := make([]tier.Op, n)
	for i := range ops {
		ops[i] = e.reads(mem[i*size:])
		if i%4 == 3 {
			ops[i] = newEntry(fmt.Sprint("begin-", i), 1, size).writes(mem[i*size:])
		}
		ops[i].ID = s.ids.Add(1)
	}
	accepted, err := s.tier.Submit(ops)
	expect.NoError(s.t, err)
	expect.Positive(s.t, accepted)
	return mem, accepted
}

// endedOnce requires that n operations complete after Stop, once each, and that the tier does not
// touch memory any more.
func (s *subject) endedOnce(mem []byte, n int) {
	fillWith(mem, 0x5a)
	got := s.drained()
	expect.Len(s.t, got, n, "each operation that was accepted completes")
	for id, times := range got {
		expect.Equal(s.t, 1, times, "operation %d", id)
	}
	s.still(mem)
	k, err := s.tier.Reap(s.within(), make([]tier.Completion, 1))
	expect.Zero(s.t, k)
	expect.ErrorIs(s.t, err, tier.ErrStopped)
	n, err = s.tier.Submit([]tier.Op{{Kind: tier.Read}})
	expect.Zero(s.t, n)
	expect.Equal(s.t, errs.UnavailableInCurrentStatus, errs.CodeOf(err))
}

func testStopInFlight(s *subject) {
	var reaped error
	var reaper sync.WaitGroup
	reaper.Go(func() { _, reaped = s.tier.Reap(context.Background(), make([]tier.Completion, 1)) })
	rig.Stop(s.tb, s.tier)
	s.ends("Reap", reaper.Wait)
	expect.ErrorIs(s.t, reaped, tier.ErrStopped)

	s = newSubject(s.tb, s.subjects)
	mem, n := s.begin(s.add("stop", 1, 20_000), 100)
	var stops sync.WaitGroup
	for range 3 {
		stops.Go(func() { rig.Stop(s.tb, s.tier) })
	}
	stops.Wait()
	s.endedOnce(mem, n)
}

func testStopGivenUp(s *subject) {
	for range 4 {
		mem, n := s.begin(s.add("given up", 1, 20_000), 100)
		_ = s.tier.Stop(rig.Over())
		s.endedOnce(mem, n)
		s = newSubject(s.tb, s.subjects)
	}
}

func (s *subject) needs(c plugin.Capability) {
	if !s.has(c) {
		s.tb.Skipf("the tier does not have the capability %s", c)
	}
}

func testSurvives(s *subject) {
	s.needs(tier.CapSurvives)
	es := s.several(30)
	unsummed := newEntry("unsummed", 1, 5000)
	unsummed.Summed, unsummed.Sum = false, 0
	s.write(&unsummed)
	es = append(es, unsummed)
	s.forget(es[7], es[8])
	gone := es[7:9:9]
	es = append(append([]entry{}, es[:7]...), es[9:]...)
	expect.NoError(s.t, s.tier.Flush(s.within()))
	v, order := s.tier.Volume(), s.scan(5)
	for range 2 {
		s = s.reopen()
		expect.Equal(s.t, v, s.tier.Volume(), "it is the same volume")
		expect.Equal(s.t, order, s.scan(5), "Scan finds the same")
		s.counts(es...)
		s.holds(es...)
		s.lacks(gone...)
	}
	s.forget(es[0])
	more := s.add("more", 9, 7000)
	expect.False(s.t, slices.Contains(locators(append(es, gone...)), more.at), "a locator is used again")
	s.holds(append(es[1:], more)...)
	es = append(es[1:], more)
	s = s.reopen() // A Stop loses nothing, also without Flush.
	s.counts(es...)
	s.holds(es...)
	if s.config != nil {
		expect.NotEqual(s.t, v.ID, newSubject(s.tb, s.subjects).tier.Volume().ID, "another volume has another ID")
	}
}

func locators(es []entry) []tier.Locator {
	out := make([]tier.Locator, len(es))
	for i, e := range es {
		out[i] = e.at
	}
	return out
}

func testVolatile(s *subject) {
	if s.has(tier.CapSurvives) {
		s.tb.Skip("the tier has the capability survives")
	}
	es := s.several(3)
	expect.NoError(s.t, s.tier.Flush(s.within()))
	next := s.reopen()
	expect.NotEqual(s.t, s.tier.Volume().ID, next.tier.Volume().ID)
	next.counts()
	next.lacks(es...)
	next.several(3)
}

func testShared(s *subject) {
	s.needs(tier.CapShared)
	other := open(s.tb, s.subjects, s.cfg, s.memory(s.tb, homeSize))
	expect.Equal(s.t, s.tier.Volume(), other.tier.Volume())
	es := s.several(5)
	expect.NoError(s.t, s.tier.Flush(s.within()))
	other.holds(es...)
	s.forget(es[0])
	other.lacks(es[0])
}

func testIndependent(s *subject) {
	if s.config == nil && s.has(tier.CapSurvives) {
		s.tb.Skip("the defaults are one volume; needs WithConfig")
	}
	other := newSubject(s.tb, s.subjects)
	expect.NotEqual(s.t, s.tier.Volume().ID, other.tier.Volume().ID)
	es := s.several(5)
	other.counts()
	other.lacks(es...)
	theirs := other.several(5)
	other.forget(theirs[1:]...)
	other.forget(es...)
	s.counts(es...)
	s.holds(es...)
	rig.Stop(s.tb, other.tier)
	s.holds(es...)
}

func testEnded(s *subject) {
	over := rig.Over()
	r := s.more(4096).region(2, 0, 4096)
	if s.tier.Register(over, r) != nil {
		expect.NoError(s.t, s.tier.Register(s.within(), r), "Register again")
	}
	es := s.several(6)
	_ = s.tier.Forget(over, []tier.Locator{es[0].at, es[1].at})
	s.forget(es[0], es[1])
	es = es[2:]
	dst := make([]tier.Found, 2)
	if n, _, err := s.tier.Scan(over, tier.Cursor{}, dst); err != nil {
		expect.Zero(s.t, n)
	}
	_, _ = s.tier.Stats(over)
	_ = s.tier.Flush(over)
	s.counts(es...)
	s.holds(es...)
	before := s.tier.Volume().Generation
	if err := s.tier.Wipe(over); err == nil {
		es = nil
		expect.Equal(s.t, before+1, s.tier.Volume().Generation)
	} else {
		s.wipe()
		es = nil
	}
	s.counts(es...)
	if s.tier.Deregister(over, 2) != nil {
		expect.NoError(s.t, s.tier.Deregister(s.within(), 2), "Deregister again")
	}
	expect.Equal(s.t, errs.InvalidParams, errs.CodeOf(s.tier.Deregister(s.within(), 2)))
	s.several(3)
}
