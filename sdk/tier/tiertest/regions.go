package tiertest

import (
	"fmt"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/internal/expect"
	"github.com/mooncake-go/mooncake/sdk/internal/rig"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

func testRegister(s *subject) {
	m := s.more(3 * 8192)
	mem, middle := m.b, m.region(2, 8192, 2*8192)
	expect.NoError(s.t, s.tier.Register(s.within(), middle))
	for what, r := range rig.Ordered(map[string]tier.Region{
		"an ID in use":        {ID: 2, Mem: make([]byte, 4096)},
		"the ID 0":            {ID: 0, Mem: make([]byte, 4096)},
		"an empty region":     {ID: 3, Mem: mem[:0]},
		"a nil region":        {ID: 3},
		"the same memory":     {ID: 3, Mem: middle.Mem},
		"an overlap in front": {ID: 3, Mem: mem[:8193]},
		"an overlap behind":   {ID: 3, Mem: mem[2*8192-1:]},
		"a part":              {ID: 3, Mem: mem[9000:9001]},
		"more than all":       {ID: 3, Mem: mem},
	}) {
		r.FD = m.fd
		err := s.tier.Register(s.within(), r)
		expect.Equal(s.t, errs.InvalidParams, errs.CodeOf(err), "%s: %v", what, err)
	}
	expect.NoError(s.t, s.tier.Register(s.within(), m.region(3, 0, 8192)))
	expect.NoError(s.t, s.tier.Register(s.within(), m.region(^tier.RegionID(0), 2*8192, 3*8192)))
	e := s.add("register", 1, 8192)
	for i := range 3 {
		s.ok(s.do(e.reads(mem[i*8192:]))[0])
		same(s.t, e.value, mem[i*8192:(i+1)*8192])
	}
	o := e.reads(s.mem)
	o.Local = [][]byte{mem[4096 : 4096+8192]}
	s.refuses("a part that lies in two regions", errs.InvalidParams, o)
}

func testDeregister(s *subject) {
	e := s.add("deregister", 1, 4096)
	mem := s.region(2, 4096)
	for range 3 {
		s.ok(s.do(e.reads(mem))[0])
		expect.NoError(s.t, s.tier.Deregister(s.within(), 2))
		s.refuses("memory of a region that ended", errs.InvalidParams, e.reads(mem))
		for _, id := range []tier.RegionID{2, 0, 99} {
			expect.Equal(s.t, errs.InvalidParams, errs.CodeOf(s.tier.Deregister(s.within(), id)), "the unknown ID %d", id)
		}
		mem = s.region(2, 4096) // The ID is free.
	}
	s.holds(e)
}

// testDeregisterInFlight ends a region while operations use it, and changes its memory at once.
func testDeregisterInFlight(s *subject) {
	const n, size = 24, 65_536
	e := s.add("in flight", 1, size)
	for round := range 6 {
		mem := s.region(2, n*size)
		var ops []tier.Op
		var written []entry
		for i := range n {
			buf := mem[i*size : (i+1)*size]
			if i%3 > 0 {
				ops = append(ops, e.reads(buf))
				continue
			}
			w := newEntry(fmt.Sprint("in flight ", i), uint64(round), size)
			w.Summed, w.Sum = false, 0 // The tier cannot see by the checksum that the memory changes.
			written = append(written, w)
			ops = append(ops, w.writes(buf))
		}
		ids, early := s.submit(ops...)
		s.ends("Deregister", func() { expect.NoError(s.t, s.tier.Deregister(s.within(), 2)) })
		fillWith(mem, 0x5a)
		for i, c := range s.finish(ops, ids, early) {
			if c.Status != tier.OK || i%3 > 0 {
				continue
			}
			w := written[i/3]
			w.at = c.At
			s.holds(w)
			s.forget(w)
		}
		s.untouched(mem)
	}
	s.holds(e)
}

func testDeregisterEnded(s *subject) {
	const n, size = 16, 65_536
	e := s.add("ended", 1, size)
	for range 6 {
		mem := s.region(2, n*size)
		var ops []tier.Op
		for i := range n {
			ops = append(ops, e.reads(mem[i*size:]))
		}
		ids, early := s.submit(ops...)
		err := s.tier.Deregister(rig.Over(), 2)
		s.refuses("memory of a region that ends", errs.InvalidParams, e.reads(mem))
		if err != nil {
			expect.Error(s.t, s.tier.Register(s.within(), s.more(512).region(2, 0, 512)), "the ID is in use until the region has ended")
			expect.NoError(s.t, s.tier.Deregister(s.within(), 2), "Deregister again")
		}
		fillWith(mem, 0x5a)
		s.finish(ops, ids, early)
		s.untouched(mem)
		expect.Equal(s.t, errs.InvalidParams, errs.CodeOf(s.tier.Deregister(s.within(), 2)))
	}
}
