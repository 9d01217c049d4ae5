package tiertest

import (
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/internal/expect"
	"github.com/mooncake-go/mooncake/sdk/internal/rig"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// beneath returns the access to the storage; the check is skipped where there is none.
func (s *subject) beneath(has func(Storage) bool) Storage {
	var out Storage
	if s.storage != nil {
		out = s.storage(s.tb, s.cfg)
	}
	if !has(out) {
		s.tb.Skip("needs WithStorage")
	}
	return out
}

func testDamage(s *subject) {
	disk := s.beneath(func(d Storage) bool { return d.Damage != nil })
	for _, size := range []int{512, 4096, 100_003} {
		e, beside := s.add("damaged", uint64(size), size), s.add("beside", uint64(size), size)
		s.holds(e)
		expect.True(s.t, disk.Damage(e.value), "there is no record of %d bytes to damage", size)
		before := s.stats().Damaged
		c := s.do(e.reads(s.mem))[0]
		expect.True(s.t, c.Status != tier.OK, "a bit of the record was flipped, and %s ends with OK", s.op(c.ID))
		expect.Among(s.t, []errs.Code{errs.ChecksumMismatch, errs.ObjectNotFound}, errs.CodeOf(c.Err), "%v", c.Err)
		expect.Equal(s.t, before+1, s.stats().Damaged)
		s.holds(beside)
		s.forget(e)
	}
}

func testStorageFails(s *subject) {
	disk := s.beneath(func(d Storage) bool { return d.Fail != nil })
	e := s.add("fails", 1, 50_000)
	repair := disk.Fail()
	s.tb.Cleanup(repair)
	s.fails(errs.FileReadFail, e.reads(s.mem))
	expect.EqualValues(s.t, 1, s.stats().ReadErrors)
	s.fails(errs.FileWriteFail, newEntry("fails too", 1, 50_000).writes(s.mem))
	st := s.stats()
	expect.EqualValues(s.t, 1, st.ReadErrors)
	expect.EqualValues(s.t, 1, st.WriteErrors)
	expect.EqualValues(s.t, 1, st.Records, "a Write that failed leaves no record")
	repair()
}

// hung begins a read and a write in the region 2 that the storage does not answer.
func (s *subject) hung(e entry, mem []byte, limit time.Duration) (ops []tier.Op, ids []uint64) {
	size := int(e.Size)
	ops = []tier.Op{e.reads(mem), newEntry("hung", 1, size).writes(mem[size:])}
	for i := range ops {
		ops[i].ID = s.ids.Add(1)
		if limit > 0 {
			ops[i].Deadline = time.Now().Add(limit)
		}
		ids = append(ids, ops[i].ID)
	}
	s.ends("Submit", func() {
		n, err := s.tier.Submit(ops)
		expect.NoError(s.t, err)
		expect.Equal(s.t, len(ops), n)
	})
	return ops, ids
}

func testStorageHangs(s *subject) {
	disk := s.beneath(func(d Storage) bool { return d.Hang != nil })
	const size = 20_000
	e := s.add("before", 1, size)
	mem := s.region(2, 2*size)
	resume := disk.Hang()
	s.tb.Cleanup(resume)
	ops, ids := s.hung(e, mem, 100*time.Millisecond)
	for ctx := s.within(); s.stats().Oldest == 0; {
		expect.NoError(s.t, ctx.Err(), "Oldest is zero although operations are at the storage")
		time.Sleep(time.Millisecond)
	}
	first := map[uint64]tier.Completion{}
	for len(first) < len(ops) {
		for _, c := range s.reap(s.within(), 64) {
			expect.False(s.t, first[c.ID].Status != 0, "it is Returned although the storage hangs")
			first[c.ID] = c
		}
	}
	quarantined := false
	for i, id := range ids {
		c := first[id]
		wellFormed(s.t, ops[i], c)
		expect.Equal(s.t, errs.RPCTimeout, errs.CodeOf(c.Err), "%v", c.Err)
		if quarantined = quarantined || c.Status == tier.Quarantined; c.Status == tier.Failed {
			fillWith(mem[i*size:(i+1)*size], 0x5a) // The tier has proved that it is free.
		}
	}
	s.deregistersLate(quarantined, resume)
	owed := s.returns(first)
	expect.Empty(s.t, owed, "no Returned after Quarantined")
	fillWith(mem, 0x5a)
	s.untouched(mem)
	s.holds(e)
	s.counts(e)
}

// deregistersLate ends the region 2, which a hanging storage may touch if something is quarantined.
func (s *subject) deregistersLate(quarantined bool, resume func()) {
	ctx, cancel := soon()
	defer cancel()
	err := s.tier.Deregister(ctx, 2)
	if quarantined {
		expect.Error(s.t, err, "Deregister returned although the storage may touch the memory")
	}
	resume()
	if err != nil {
		expect.NoError(s.t, s.tier.Deregister(s.within(), 2))
	}
}

// returns waits for the second completion of each operation that is quarantined.
func (s *subject) returns(first map[uint64]tier.Completion) (owed map[uint64]bool) {
	owed = map[uint64]bool{}
	for id, c := range first {
		if c.Status == tier.Quarantined {
			owed[id] = true
		}
	}
	for len(owed) > 0 {
		for _, c := range s.reap(s.within(), 64) {
			expect.True(s.t, owed[c.ID], "operation %d was not quarantined", c.ID)
			expect.Equal(s.t, tier.Returned, c.Status)
			expect.NoError(s.t, c.Err)
			delete(owed, c.ID)
		}
	}
	return owed
}

func testStopHanging(s *subject) {
	disk := s.beneath(func(d Storage) bool { return d.Hang != nil })
	e := s.add("before", 1, 20_000)
	mem := s.region(2, 2*20_000)
	resume := disk.Hang()
	s.tb.Cleanup(resume)
	_, ids := s.hung(e, mem, 0)
	ctx, cancel := soon()
	defer cancel()
	s.ends("Stop", func() { _ = s.tier.Stop(ctx) })
	s.endedOnce(mem, len(ids))
}

func testCrash(s *subject) {
	disk := s.beneath(func(d Storage) bool { return d.Crash != nil })
	s.needs(tier.CapSurvives)
	wiped := s.several(5)
	expect.NoError(s.t, s.tier.Flush(s.within()))
	s.wipe()
	kept, gone := s.several(8), s.add("gone", 1, 5000)
	s.forget(gone)
	expect.NoError(s.t, s.tier.Flush(s.within()))
	forgotten := kept[0]
	s.forget(forgotten) // It may be found again.
	late := s.add("late", 1, 5000)
	v := s.tier.Volume()
	disk.Crash()
	next := open(s.tb, s.subjects, s.cfg, s.home)
	expect.Equal(s.t, v, next.tier.Volume())
	next.holds(kept[1:]...)
	next.lacks(gone)
	next.lacks(wiped...)
	for _, e := range []entry{forgotten, late} {
		c := next.do(e.reads(next.mem))[0]
		if c.Status == tier.OK {
			same(s.t, e.value, next.mem[:e.Size])
		} else {
			expect.Equal(s.t, errs.ObjectNotFound, errs.CodeOf(c.Err), "%v", c.Err)
		}
	}
	next.several(3)
	rig.Stop(s.tb, next.tier)
}
