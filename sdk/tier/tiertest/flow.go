package tiertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/internal/expect"
	"github.com/mooncake-go/mooncake/sdk/internal/rig"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

func testRefuses(s *subject) {
	e := s.add("refuses", 1, 8192)
	outside := make([]byte, 1<<20)
	ended := s.region(2, 8192)
	expect.NoError(s.t, s.tier.Deregister(s.within(), 2))
	tooLarge := s.tier.Volume().MaxRecord + 1
	w, r := e.writes(s.mem), e.reads(s.mem)
	for what, bad := range rig.Ordered(map[string]func() tier.Op{
		"a kind that does not exist":     func() tier.Op { o := w; o.Kind = 3; return o },
		"no kind":                        func() tier.Op { o := r; o.Kind = 0; return o },
		"a Write without a key":          func() tier.Op { o := w; o.Record.Key = nil; return o },
		"a Read without a key":           func() tier.Op { o := r; o.Record.Key = nil; return o },
		"a Write with too long a key":    func() tier.Op { o := w; o.Record.Key = make([]byte, tier.MaxKey+1); return o },
		"a Read with too long a key":     func() tier.Op { o := r; o.Record.Key = make([]byte, tier.MaxKey+1); return o },
		"a Write of an empty value":      func() tier.Op { o := w; o.Record.Size, o.Local = 0, nil; return o },
		"a Read of an empty value":       func() tier.Op { o := r; o.Record.Size, o.Local = 0, nil; return o },
		"a Write of too large a value":   func() tier.Op { o := w; o.Record.Size = tooLarge; return o },
		"a Read of too large a value":    func() tier.Op { o := r; o.Record.Size = tooLarge; return o },
		"a Write with too few bytes":     func() tier.Op { o := w; o.Local = [][]byte{s.mem[:8191]}; return o },
		"a Write with too many bytes":    func() tier.Op { o := w; o.Local = [][]byte{s.mem[:8192], s.mem[8192:8193]}; return o },
		"a Write without bytes":          func() tier.Op { o := w; o.Local = nil; return o },
		"a Read of no bytes":             func() tier.Op { o := r; o.Local = nil; return o },
		"a Read past the end":            func() tier.Op { o := r; o.Offset = 1; return o },
		"a Read behind the end":          func() tier.Op { o := r; o.Offset, o.Local = 8192, [][]byte{s.mem[:1]}; return o },
		"a Read at the largest offset":   func() tier.Op { o := r; o.Offset = math.MaxUint64; return o },
		"a Write of unregistered memory": func() tier.Op { o := w; o.Local = [][]byte{outside[:8192]}; return o },
		"a Read to unregistered memory":  func() tier.Op { o := r; o.Local = [][]byte{s.mem[:4096], outside[:4096]}; return o },
		"memory of a region that ended":  func() tier.Op { o := r; o.Local = [][]byte{ended}; return o },
	}) {
		s.refuses(what, errs.InvalidParams, bad())
		ops := []tier.Op{e.reads(s.mem[8192:]), bad(), e.reads(s.mem[3*8192:])}
		for i := range ops {
			ops[i].ID = s.ids.Add(1)
		}
		n, err := s.tier.Submit(ops)
		expect.Equal(s.t, 1, n, "%s: the operation before it is accepted, and none behind it", what)
		expect.Equal(s.t, errs.InvalidParams, errs.CodeOf(err), "%s: %v", what, err)
		c := s.finish(ops[:1], []uint64{ops[0].ID}, nil)[0]
		s.ok(c, "%s harms another operation", what)
	}
	s.counts(e)
	n, err := s.tier.Submit(nil)
	expect.NoError(s.t, err)
	expect.Zero(s.t, n)
	s.quiet()
}

// quiet stops the tier and requires that nothing is left to reap.
func (s *subject) quiet() {
	rig.Stop(s.tb, s.tier)
	n, err := s.tier.Reap(s.within(), make([]tier.Completion, 8))
	expect.Zero(s.t, n, "completions of operations that had completed, or were refused")
	expect.ErrorIs(s.t, err, tier.ErrStopped)
}

func testOutside(s *subject) {
	e := s.add("outside", 1, 100)
	fresh, err := s.f.New(s.settings(s.tb))
	expect.NoError(s.t, err)
	rig.Stop(s.tb, s.tier)
	mem := make([]byte, 4096)
	for when, x := range rig.Ordered(map[string]tier.Tier{"before Start": fresh, "after Stop": s.tier}) {
		_, _, scan := x.Scan(s.within(), tier.Cursor{}, make([]tier.Found, 1))
		_, stats := x.Stats(s.within())
		_, submit := x.Submit([]tier.Op{e.reads(s.mem)})
		for what, err := range rig.Ordered(map[string]error{
			"Register": x.Register(s.within(), tier.Region{ID: 2, Mem: mem, FD: -1}), "Deregister": x.Deregister(s.within(), homeID),
			"Submit": submit, "Forget": x.Forget(s.within(), []tier.Locator{e.at}), "Scan": scan, "Flush": x.Flush(s.within()),
			"Wipe": x.Wipe(s.within()), "Stats": stats,
		}) {
			expect.Equal(s.t, errs.UnavailableInCurrentStatus, errs.CodeOf(err), "%s %s: %v", what, when, err)
		}
	}
	expect.Error(s.t, s.tier.Start(s.within(), rig.Host{}), "a tier starts once")
	rig.Stop(s.tb, fresh)
}

// mixed makes operations of all sorts, each with a buffer of its own, of which some must fail.
func (s *subject) mixed(e entry, n int) []tier.Op {
	var ops []tier.Op
	for i := range n {
		buf := s.mem[i*16_384 : (i+1)*16_384]
		w := newEntry(fmt.Sprint("mixed-", i), 1, 1+i*101%16_384)
		r := e.reads(buf)
		switch i % 5 {
		case 1:
			r.Record.Version.Put++
		case 2:
			r = w.writes(buf)
		case 3:
			w.Sum++
			r = w.writes(buf)
		case 4:
			r.Offset, r.Local = 77, [][]byte{buf[:333]}
		}
		r.Urgent = i%3 == 0
		ops = append(ops, r)
	}
	return ops
}

// result is how an operation of mixed must end.
func result(i int) errs.Code {
	return []errs.Code{errs.OK, errs.ObjectNotFound, errs.OK, errs.ChecksumMismatch, errs.OK}[i%5]
}

func testOnce(s *subject) {
	e := s.add("once", 1, 16_384)
	const n = 200
	for range 5 {
		for i, c := range s.do(s.mixed(e, n)...) {
			expect.Equal(s.t, result(i), errs.CodeOf(c.Err), "operation %d: %v", i, c.Err)
			if c.At != (tier.Locator{}) {
				s.forget(entry{at: c.At})
			}
		}
	}
	// The caller picks the IDs: here each is the same.
	for range 8 {
		k, err := s.tier.Submit([]tier.Op{e.reads(s.mem)})
		expect.NoError(s.t, err)
		expect.Equal(s.t, 1, k)
		got := s.reap(s.within(), 64)
		expect.Len(s.t, got, 1)
		expect.Zero(s.t, got[0].ID)
	}
	s.counts(e)
	s.quiet()
}

// testTerminal changes a buffer as soon as its operation completed.
func testTerminal(s *subject) {
	for i := range 40 {
		e := newEntry("terminal", uint64(i), 60_000+i)
		e.Summed, e.Sum = false, 0
		c := s.do(e.writes(s.mem))[0]
		clear(s.mem[:e.Size])
		s.ok(c)
		e.at = c.At
		got := s.mem[1<<20:]
		c = s.do(e.reads(got))[0]
		s.ok(c)
		same(s.t, e.value, got[:e.Size])
		fillWith(got[:e.Size], 0x5a)
		s.forget(e)
		s.untouched(got[:e.Size])
	}
}

// untouched requires that memory holds 0x5a, after the tier had the chance to write to it.
func (s *subject) untouched(mem []byte) {
	s.stats()
	s.do(tier.Op{Kind: tier.Read, Record: tier.Record{Key: []byte("nothing"), Size: 1}, At: tier.Locator{1}, Local: [][]byte{s.mem[:1]}})
	s.still(mem)
}

// still requires that memory holds 0x5a.
func (s *subject) still(mem []byte) {
	expect.Zero(s.t, len(bytes.Trim(mem, "\x5a")), "memory was written after the end of its operation")
}

// most is how many operations a tier accepts at most before it is reaped.
const most = 1 << 16

func testBackPressure(s *subject) {
	e := s.add("pressure", 1, 64)
	ops, accepted := []tier.Op{}, 0
	s.ends("Submit", func() {
		for accepted < most {
			o := e.reads(s.mem[64*accepted:])
			o.ID = uint64(accepted)
			n, err := s.tier.Submit([]tier.Op{o})
			expect.NoError(s.t, err, "back-pressure is no error")
			if n == 0 {
				return
			}
			ops, accepted = append(ops, o), accepted+1
		}
	})
	expect.Less(s.t, accepted, most, "it accepts everything, although the test does not reap")
	expect.Positive(s.t, accepted)
	ids := make([]uint64, accepted)
	for i := range ids {
		ids[i] = uint64(i)
	}
	s.ids.Store(uint64(accepted))
	for _, c := range s.finish(ops, ids, nil) {
		s.ok(c)
	}
	s.holds(e)
	conformance.AddFigure(s.tb, "operations before back-pressure", float64(accepted), "operations")
}

func testReap(s *subject) {
	n, err := s.tier.Reap(s.within(), nil)
	expect.NoError(s.t, err)
	expect.Zero(s.t, n)
	dst := make([]tier.Completion, 4)
	n, err = s.tier.Reap(rig.Over(), dst)
	expect.Zero(s.t, n)
	expect.ErrorIs(s.t, err, context.Canceled)
	short, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	s.ends("Reap", func() { n, err = s.tier.Reap(short, dst) })
	expect.Zero(s.t, n)
	expect.ErrorIs(s.t, err, context.DeadlineExceeded)
	e := s.add("reap", 1, 4096)
	for i := range 50 {
		o := e.reads(s.mem)
		ids, early := s.submit(o)
		n, err := s.tier.Reap(rig.Over(), dst[:1]) // It may find the completion.
		if n > 0 {
			expect.NoError(s.t, err, "round %d", i)
			early = append(early, dst[:n]...)
		}
		s.ok(s.finish([]tier.Op{o}, ids, early)[0])
	}
}

func testDeadline(s *subject) {
	e := s.add("deadline", 1, 4096)
	past := time.Now().Add(-time.Second)
	for _, urgent := range []bool{false, true} {
		r, w := e.reads(s.mem), newEntry("late", 1, 4096).writes(s.mem[4096:])
		r.Deadline, w.Deadline = past, past
		r.Urgent, w.Urgent = urgent, urgent
		s.fails(errs.RPCTimeout, r)
		s.fails(errs.RPCTimeout, w)
	}
	s.counts(e)
	r := e.reads(s.mem)
	r.Deadline = time.Now().Add(time.Hour)
	s.ok(s.do(r)[0])
}

// drained reaps until the tier is stopped, and returns how often each operation has ended.
func (s *subject) drained() map[uint64]int {
	out := map[uint64]int{}
	dst := make([]tier.Completion, 16)
	for {
		n, err := s.tier.Reap(s.within(), dst)
		if n == 0 {
			expect.True(s.t, errors.Is(err, tier.ErrStopped), "Reap after Stop: %v", err)
			return out
		}
		expect.NoError(s.t, err)
		for _, c := range dst[:n] {
			if c.Status != tier.Quarantined {
				out[c.ID]++
			}
		}
	}
}
