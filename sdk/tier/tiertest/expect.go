package tiertest

import (
	"fmt"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/internal/expect"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// write keeps entries, one after the other, and sets their locators.
func (s *subject) write(es ...*entry) {
	for _, e := range es {
		c := s.do(e.writes(s.mem))[0]
		s.ok(c)
		e.at = c.At
	}
}

// add keeps a new entry.
func (s *subject) add(key string, put uint64, size int) entry {
	e := newEntry(key, put, size)
	s.write(&e)
	return e
}

// holds requires that entries can be read.
func (s *subject) holds(es ...entry) {
	for _, e := range es {
		clear(s.mem[:e.Size])
		c := s.do(e.reads(s.mem))[0]
		s.ok(c)
		expect.Equal(s.t, e.Summed, c.Verified, "Verified of the whole value")
		same(s.t, e.value, s.mem[:e.Size])
	}
}

// lacks requires that the records of entries are not found.
func (s *subject) lacks(es ...entry) {
	for _, e := range es {
		s.fails(errs.ObjectNotFound, e.reads(s.mem))
	}
}

// fails requires that an operation fails with a code.
func (s *subject) fails(code errs.Code, o tier.Op) {
	c := s.do(o)[0]
	expect.True(s.t, c.Status != tier.OK, "%s at %v ends with OK, and should fail with %s", s.op(c.ID), o.At, code)
	expect.Equal(s.t, code, errs.CodeOf(c.Err), "%s ends with %s (%v): the code", s.op(c.ID), c.Status, c.Err)
}

// refuses requires that Submit accepts no operation.
func (s *subject) refuses(what string, code errs.Code, o tier.Op) {
	o.ID = s.ids.Add(1)
	n, err := s.tier.Submit([]tier.Op{o})
	expect.Zero(s.t, n, "%s was accepted", what)
	expect.Equal(s.t, code, errs.CodeOf(err), "%s: %v", what, err)
}

func (s *subject) forget(es ...entry) {
	at := make([]tier.Locator, len(es))
	for i, e := range es {
		at[i] = e.at
	}
	s.note("Forget of %d records, the first %s", len(es), keyText(firstKey(es)))
	expect.NoError(s.t, s.tier.Forget(s.within(), at), "Forget")
}

// scan returns all records in pages.
func (s *subject) scan(page int) []tier.Found {
	var out []tier.Found
	var at tier.Cursor
	for {
		dst := make([]tier.Found, page)
		n, next, err := s.tier.Scan(s.within(), at, dst)
		expect.NoError(s.t, err, "Scan")
		expect.LessOrEqual(s.t, n, page)
		if n == 0 {
			return out
		}
		out, at = append(out, dst[:n]...), next
		expect.Less(s.t, len(out), 1<<20, "Scan does not end")
	}
}

func (s *subject) stats() tier.Stats {
	st, err := s.tier.Stats(s.within())
	expect.NoError(s.t, err, "Stats")
	return st
}

// counts requires that Stats and Scan have these records and no other.
func (s *subject) counts(es ...entry) {
	var used uint64
	want := make([]tier.Found, 0, len(es))
	for _, e := range es {
		used += s.tier.Space(e.Record)
		want = append(want, tier.Found{Record: e.Record, At: e.at})
	}
	st := s.stats()
	expect.EqualValues(s.t, len(es), st.Records, "Stats.Records")
	expect.Equal(s.t, used, st.Used, "Stats.Used is the sum of Space")
	expect.LessOrEqual(s.t, st.Used, st.Capacity)
	sameFound(s.t, want, s.scan(7))
}

// sameFound compares records in any order.
func sameFound(t require.TestingT, want, got []tier.Found) {
	lines := func(fs []tier.Found) []string {
		out := make([]string, len(fs))
		for i, f := range fs {
			out[i] = fmt.Sprintf("%s version %d.%d of %d bytes, with a checksum: %v (%x), at %v", keyText(f.Record.Key), f.Record.Version.Epoch, f.Record.Version.Put, f.Record.Size, f.Record.Summed, f.Record.Sum, f.At)
		}
		slices.Sort(out)
		return out
	}
	a, b := lines(want), lines(got)
	without := func(from, of []string) []string {
		return slices.DeleteFunc(slices.Clone(from), func(x string) bool { return slices.Contains(of, x) })
	}
	if missing := without(a, b); len(missing) > 0 {
		expect.True(t, false, "Scan finds %d records, and %d of %d are missing, the first %s", len(b), len(missing), len(a), missing[0])
	}
	if more := without(b, a); len(more) > 0 {
		expect.True(t, false, "Scan finds %d records, and %d of them should not be there, the first %s", len(b), len(more), more[0])
	}
	expect.Len(t, b, len(a), "the records that Scan finds, some of them twice")
}

func firstKey(es []entry) []byte {
	if len(es) == 0 {
		return nil
	}
	return es[0].Key
}
