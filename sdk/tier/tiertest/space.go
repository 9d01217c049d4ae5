package tiertest

import (
	"fmt"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/internal/expect"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// fillUp keeps records of one size until there is no space.
func (s *subject) fillUp() []entry {
	v := s.tier.Volume()
	if v.Capacity > largest {
		s.tb.Skipf("the volume has %d bytes; needs WithConfig with a smaller volume", v.Capacity)
	}
	size := int(min(v.Capacity/64, v.MaxRecord, homeSize))
	var out []entry
	for {
		e := newEntry(fmt.Sprintf("full-%04d", len(out)), 1, size)
		c := s.do(e.writes(s.mem))[0]
		if c.Status != tier.OK {
			expect.Equal(s.t, errs.NoAvailableHandle, errs.CodeOf(c.Err), "%v", c.Err)
			return out
		}
		e.at = c.At
		out = append(out, e)
		expect.LessOrEqual(s.t, uint64(len(out))*s.tier.Space(e.Record), v.Capacity, "it keeps more than its capacity")
	}
}

func testFull(s *subject) {
	es := s.fillUp()
	st := s.stats()
	expect.Greater(s.t, st.Used, st.Capacity/4*3, "a quarter of the capacity cannot be used")
	expect.Less(s.t, st.LargestFree, es[0].Size, "there is space for a record that was refused")
	s.counts(es...)
	s.holds(es...) // None of them lies where another does.
	s.forget(es[3])
	back := newEntry("back", 2, int(es[3].Size))
	s.write(&back)
	s.holds(back, es[2], es[4])
	s.lacks(es[3])
	s.forget(append(es, back)...)
	expect.Zero(s.t, s.stats().Used)
	again := s.fillUp()
	expect.Len(s.t, again, len(es), "space was lost")
	s.holds(again...)
}

func testForget(s *subject) {
	a, b, c := s.add("a", 1, 5000), s.add("b", 1, 5000), s.add("c", 1, 5000)
	s.forget()
	s.forget(entry{at: tier.Locator{}}, entry{at: tier.Locator{^uint64(0), 3, 1 << 50, 7}})
	s.counts(a, b, c)
	s.forget(a, a)
	s.counts(b, c)
	s.forget(a, b)
	s.counts(c)
	s.lacks(a, b)
	s.forget(b)
	s.holds(c)
	s.forget(c, a)
	s.counts()
	s.lacks(a, b, c)
	a = s.add("a", 2, 5000)
	s.holds(a)
}

// testForgetReading has reads in flight in a full volume when their record is forgotten, so that the
// next Write needs their place.
func testForgetReading(s *subject) {
	es := s.fillUp()
	const n = 12
	size := int(es[0].Size)
	mem := s.region(2, (n+1)*size)
	for round := range 12 {
		victim := es[round%len(es)]
		var ops []tier.Op
		for i := range n {
			ops = append(ops, victim.reads(mem[i*size:]))
		}
		next := newEntry(string(victim.Key), uint64(2+round), size)
		ids, early := s.submit(ops...)
		if round%2 == 1 { // Some reads are at the storage then.
			early = append(early, s.reap(s.within(), 1)...)
		}
		s.forget(victim)
		w := next.writes(mem[n*size:])
		id, more := s.submit(w)
		out := s.finish(append(ops, w), append(ids, id...), append(early, more...))
		for i, c := range out[:n] {
			if c.Status == tier.OK {
				same(s.t, victim.value, mem[i*size:(i+1)*size])
			} else {
				expect.Equal(s.t, errs.ObjectNotFound, errs.CodeOf(c.Err), "%v", c.Err)
			}
		}
		s.lacks(victim)
		if next.at = out[n].At; out[n].Status != tier.OK {
			expect.Equal(s.t, errs.NoAvailableHandle, errs.CodeOf(out[n].Err), "%v", out[n].Err)
			s.write(&next) // No Read is in flight any more.
		}
		s.holds(next)
		es[round%len(es)] = next
	}
	s.counts(es...)
}

func testStats(s *subject) {
	v := s.tier.Volume()
	st := s.stats()
	expect.Equal(s.t, v.Capacity, st.Capacity)
	expect.Zero(s.t, st.Used+st.Records+st.ReadErrors+st.WriteErrors+st.Damaged)
	var es []entry
	for i, size := range []int{1, 4000, 4096, 4097, 100_000} {
		es = append(es, s.add(fmt.Sprint(i), 1, size))
		s.counts(es...)
	}
	before := s.stats()
	expect.Zero(s.t, before.Oldest, "nothing is in flight")
	for range 3 {
		wrong := es[0]
		wrong.Version.Put++
		s.lacks(wrong)
	}
	s.holds(es...)
	after := s.stats()
	expect.Equal(s.t, before.Damaged+3, after.Damaged, "Damaged counts reads that found no record")
	expect.Zero(s.t, after.ReadErrors+after.WriteErrors, "the storage failed nothing")
	s.forget(es...)
	s.counts()
}

func testScan(s *subject) {
	var want []tier.Found
	for i := range 23 {
		e := newEntry(fmt.Sprintf("%c-%d", 'z'-i, i), uint64(100-i), 10+i)
		if i%4 == 0 {
			e.Summed, e.Sum = false, 0
		}
		s.write(&e)
		want = append([]tier.Found{{Record: e.Record, At: e.at}}, want...)
	}
	for _, page := range []int{1, 2, 7, 23, 24, 100} {
		got := s.scan(page)
		sameFound(s.t, want, got)
		for i := range got {
			expect.Equal(s.t, want[i].At, got[i].At, "those that were written last come first")
			for j := range got[i].Record.Key {
				got[i].Record.Key[j] = 0
			}
			got[i].Record.Key = append(got[i].Record.Key, 'x')
		}
	}
	dst := make([]tier.Found, 5)
	n, at, err := s.tier.Scan(s.within(), tier.Cursor{}, dst)
	expect.NoError(s.t, err)
	expect.Positive(s.t, n)
	for range 2 { // A cursor can be used again.
		k, _, err := s.tier.Scan(s.within(), at, dst[:1])
		expect.NoError(s.t, err)
		expect.Equal(s.t, 1, k)
		expect.Equal(s.t, want[n].At, dst[0].At)
	}
	_, _, err = s.tier.Scan(s.within(), tier.Cursor{}, nil)
	expect.Equal(s.t, errs.InvalidParams, errs.CodeOf(err), "Scan with an empty dst: %v", err)
}

func testScanChanges(s *subject) {
	stay := map[tier.Locator]bool{}
	var leave []entry
	for i := range 40 {
		if e := s.add(fmt.Sprint("s", i), 1, 100); i%2 == 0 {
			stay[e.at] = true
		} else {
			leave = append(leave, e)
		}
	}
	var at tier.Cursor
	dst := make([]tier.Found, 3)
	seen := map[tier.Locator]bool{}
	for i := 0; ; i++ {
		n, next, err := s.tier.Scan(s.within(), at, dst)
		expect.NoError(s.t, err)
		if n == 0 {
			break
		}
		for _, f := range dst[:n] {
			expect.False(s.t, seen[f.At], "found twice")
			seen[f.At] = true
		}
		at = next
		if i < len(leave) {
			s.forget(leave[i])
			s.add(fmt.Sprint("new", i), 1, 100)
		}
	}
	for l := range stay {
		expect.True(s.t, seen[l], "a record that was there all the time is missing")
	}
}
