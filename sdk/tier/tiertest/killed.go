package tiertest

import (
	"fmt"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/internal/expect"
	"github.com/mooncake-go/mooncake/sdk/internal/rig"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// testKilled ends the process while operations are in flight.
func testKilled(s *subject) {
	if s.kill == nil {
		s.tb.Skip("the tier runs in this process; needs WithKill")
	}
	es := s.several(6)
	expect.NoError(s.t, s.tier.Flush(s.within()))
	v := s.tier.Volume()
	mem, n := s.begin(s.add("killed", 1, 20_000), 100)
	expect.NoError(s.t, s.kill(s.tier))
	ended := map[uint64]bool{}
	for ctx := s.within(); len(ended) < n; {
		for _, c := range s.reap(ctx, 64) {
			expect.False(s.t, ended[c.ID], "operation %d completes twice", c.ID)
			if c.Status != tier.Quarantined {
				ended[c.ID] = true
			}
		}
	}
	fillWith(mem, 0x5a)
	rig.Recovered(s.tb, func() error {
		_, err := s.tier.Stats(s.within())
		return err
	})
	if s.has(tier.CapSurvives) {
		expect.Equal(s.t, v, s.tier.Volume(), "it is the same volume")
		s.holds(es...)
	} else {
		expect.NotEqual(s.t, v.ID, s.tier.Volume().ID, "the records are gone")
		s.lacks(es...)
		s.counts()
	}
	s.several(3)
	s.still(mem)
	expect.NoError(s.t, s.tier.Deregister(s.within(), 2), "the next process has the region")
}

// tornRounds is how often testTorn kills the process: a host gives a plugin up that ends five times within a minute.
const tornRounds = 4

// testTorn kills the process while writes are in flight, at different moments, and looks at what the next one has.
func testTorn(s *subject) {
	if s.kill == nil {
		s.tb.Skip("the tier runs in this process; needs WithKill")
	}
	s.needs(tier.CapSurvives)
	const n, size = 24, 100_003
	mem := s.region(2, n*size)
	for round := range tornRounds {
		s.wipe()
		gone, kept := s.add("forgotten", uint64(round), 5000), s.add("kept", uint64(round), 70_000)
		s.forget(gone)
		expect.NoError(s.t, s.tier.Flush(s.within()), "Flush")
		late := make([]entry, n)
		ops := make([]tier.Op, n)
		for i := range late {
			late[i] = newEntry(fmt.Sprint("torn-", round, "-", i), uint64(i), size)
			if i%2 == 0 { // The tier cannot see by the checksum that it is torn.
				late[i].Summed, late[i].Sum = false, 0
			}
			ops[i] = late[i].writes(mem[i*size:])
		}
		ids, early := s.submit(ops...)
		if round%2 == 1 { // Some writes have completed then.
			early = append(early, s.reap(s.within(), 1+round)...)
		}
		time.Sleep(time.Duration(round) * 10 * time.Millisecond) // Another moment in each round, whichever it is.
		expect.NoError(s.t, s.kill(s.tier), "kill")
		s.finish(ops, ids, early)
		rig.Recovered(s.tb, func() error {
			_, err := s.tier.Stats(s.within())
			return err
		})
		s.holds(kept)
		s.lacks(gone)
		s.whole(append(late, kept))
	}
	s.wipe()
}

// whole requires that each record that Scan finds is one of entries, with its whole value.
func (s *subject) whole(es []entry) {
	by := map[string]entry{}
	for _, e := range es {
		by[string(e.Key)] = e
	}
	for _, f := range s.scan(64) {
		e, known := by[string(f.Record.Key)]
		expect.True(s.t, known, "Scan finds a record of key %q, which was never written or was forgotten before the last Flush", f.Record.Key)
		e.at = f.At
		c := s.do(e.reads(s.mem))[0]
		if c.Status != tier.OK { // A record that cannot be read is not torn.
			expect.Among(s.t, []errs.Code{errs.ObjectNotFound, errs.ChecksumMismatch}, errs.CodeOf(c.Err), "%s ends with %v: the code", s.op(c.ID), c.Err)
			continue
		}
		same(s.t, e.value, s.mem[:e.Size], "a Write was in flight when the process was killed, and Scan finds key %q", e.Key)
	}
}

// batchLengths are what a store writes and forgets in one call, and what lies just beside powers of two.
var batchLengths = []int{1, 2, 63, 64, 65, 255, 256, 257}

// testBatches writes, reads, finds and forgets records in batches of each length.
func testBatches(s *subject) {
	const size = 700
	for _, n := range batchLengths {
		es, ops := make([]entry, n), make([]tier.Op, n)
		for i := range es {
			es[i] = newEntry(fmt.Sprint("batch-", n, "-", i), 1, size)
			ops[i] = es[i].writes(s.mem[i*size:])
		}
		for i, c := range s.do(ops...) {
			s.ok(c, "operation %d of a batch of %d", i, n)
			es[i].at = c.At
		}
		for _, page := range []int{n, n + 1, 256} {
			var want []tier.Found
			for _, e := range es {
				want = append(want, tier.Found{Record: e.Record, At: e.at})
			}
			sameFound(s.t, want, s.scan(page))
		}
		clear(s.mem[:n*size])
		for i := range es {
			ops[i] = es[i].reads(s.mem[i*size:])
		}
		for i, c := range s.do(ops...) {
			s.ok(c, "operation %d of a batch of %d", i, n)
			same(s.t, es[i].value, s.mem[i*size:(i+1)*size], "operation %d of a batch of %d", i, n)
		}
		s.forget(es...)
		s.lacks(es...)
		s.counts()
	}
}
