package tiertest

import (
	"fmt"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/internal/expect"
	"github.com/mooncake-go/mooncake/sdk/internal/rig"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// model is what the contract says a tier keeps.
type model struct {
	*subject
	there []entry
	gone  []entry
	puts  uint64
}

// testModel runs random sequences against the tier and the model side by side. One volume serves all
// sequences; each wipes it in the end.
func testModel(s *subject) {
	rig.Sequences(s.tb, func(rt *rapid.T, seq *rig.Sequence) {
		m := &model{subject: s.reporting(seq)}
		steps := map[string]func(*rapid.T){
			"write": m.stepWrite, "read": m.stepRead, "read another": m.stepAnother, "read what is gone": m.stepGone,
			"forget": m.stepForget, "flush": func(*rapid.T) { expect.NoError(m.t, m.tier.Flush(m.within()), "Flush") },
			"wipe": m.stepWipe, "": func(*rapid.T) { m.counts(m.there...) },
		}
		if s.has(tier.CapSurvives) {
			steps["start again"] = m.stepReopen
		}
		defer func() { // Also of a sequence that failed.
			s.tier, s.mem = m.tier, m.mem
			_ = s.tier.Wipe(s.within())
		}()
		rt.Repeat(steps)
	})
}

// reporting returns the subject with another place to report to.
func (s *subject) reporting(t require.TestingT) *subject {
	out := *s
	out.t = t
	return &out
}

// stepWrite keeps several values at once, some of which are wrong.
func (m *model) stepWrite(rt *rapid.T) {
	n := rapid.IntRange(1, 6).Draw(rt, "writes")
	var es []entry
	var ops []tier.Op
	used := 0
	for range n {
		m.puts++
		size := rapid.OneOf(rapid.IntRange(1, 5000), rapid.SampledFrom([]int{1, 512, 4096, 4097, 65_536})).Draw(rt, "size")
		e := newEntry(fmt.Sprint("key-", rapid.IntRange(0, 7).Draw(rt, "key")), m.puts, size)
		if rapid.Bool().Draw(rt, "without a checksum") {
			e.Summed, e.Sum = false, 0
		}
		o := e.writes(m.mem[used:])
		used += size
		if e.Summed && rapid.IntRange(0, 9).Draw(rt, "wrong") == 0 {
			o.Record.Sum++
		}
		es, ops = append(es, e), append(ops, o)
	}
	for i, c := range m.do(ops...) {
		if ops[i].Record.Sum != es[i].Sum {
			expect.Equal(m.t, errs.ChecksumMismatch, errs.CodeOf(c.Err), "%v", c.Err)
			continue
		}
		if errs.Is(c.Err, errs.NoAvailableHandle) {
			continue
		}
		m.ok(c)
		es[i].at = c.At
		m.there = append(m.there, es[i])
	}
}

func (m *model) pick(rt *rapid.T, from []entry) (int, entry) {
	if len(from) == 0 {
		rt.Skip("there is none")
	}
	i := rapid.IntRange(0, len(from)-1).Draw(rt, "record")
	return i, from[i]
}

func (m *model) stepRead(rt *rapid.T) {
	_, e := m.pick(rt, m.there)
	o := e.reads(m.mem)
	from := rapid.IntRange(0, int(e.Size)-1).Draw(rt, "from")
	n := rapid.IntRange(1, int(e.Size)-from).Draw(rt, "bytes")
	if rapid.Bool().Draw(rt, "whole") {
		from, n = 0, int(e.Size)
	}
	at := rapid.IntRange(0, 5000).Draw(rt, "at")
	o.Offset, o.Local = uint64(from), parts(m.mem[at:at+n], rapid.IntRange(1, 4).Draw(rt, "parts"))
	o.Urgent = rapid.Bool().Draw(rt, "urgent")
	c := m.do(o)[0]
	m.ok(c)
	expect.Equal(m.t, e.Summed && n == int(e.Size), c.Verified)
	same(m.t, e.value[from:from+n], m.mem[at:at+n])
}

func (m *model) stepAnother(rt *rapid.T) {
	_, e := m.pick(rt, m.there)
	_, other := m.pick(rt, m.there)
	switch rapid.IntRange(0, 3).Draw(rt, "what") {
	case 0:
		e.Version.Put = m.puts + 1
	case 1:
		e.Key = []byte("no such key")
	case 2:
		e.Size++
	default:
		if e.at == other.at {
			rt.Skip("it is the same")
		}
		e.at = other.at
	}
	m.lacks(e)
}

func (m *model) stepGone(rt *rapid.T) {
	_, e := m.pick(rt, m.gone)
	m.lacks(e)
}

func (m *model) stepForget(rt *rapid.T) {
	i, e := m.pick(rt, m.there)
	es := []entry{e}
	if len(m.gone) > 0 && rapid.Bool().Draw(rt, "twice") {
		_, old := m.pick(rt, m.gone)
		es = append(es, old, e)
	}
	m.forget(es...)
	m.there = append(m.there[:i:i], m.there[i+1:]...)
	m.gone = append(m.gone, e)
}

func (m *model) stepWipe(rt *rapid.T) {
	if rapid.IntRange(0, 9).Draw(rt, "seldom") > 0 {
		rt.Skip("not now")
	}
	m.wipe()
	m.gone, m.there = append(m.gone, m.there...), nil
}

func (m *model) stepReopen(rt *rapid.T) {
	if rapid.IntRange(0, 9).Draw(rt, "seldom") > 0 {
		rt.Skip("not now")
	}
	v := m.tier.Volume()
	m.subject = m.reopen()
	expect.Equal(m.t, v, m.tier.Volume())
}
