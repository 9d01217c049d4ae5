package grant

import (
	"encoding/json"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

func TestMain(m *testing.M) {
	if err := flag.Set("rapid.nofailfile", "true"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// TestKeysDoNotShow: no way of printing shows a key.
func TestKeysDoNotShow(t *testing.T) {
	k := NewKey()
	b, err := json.Marshal(struct{ K *Key }{k})
	require.NoError(t, err)
	text := fmt.Sprintf("%v %+v %#v %s %q %x %s", k, k, k, k, k, k, b)
	require.NotContains(t, text, fmt.Sprintf("%x", k.bytes[:4]))
	require.NotContains(t, text, fmt.Sprintf("%d, %d", k.bytes[0], k.bytes[1]))
	require.NotContains(t, k.LogValue().String(), string(k.bytes[:]))
	again, err := ParseKey(k.Bytes())
	require.NoError(t, err)
	require.Equal(t, k, again)
	for _, size := range []int{0, 31, 33} {
		_, err := ParseKey(make([]byte, size))
		require.Error(t, err, size)
	}
}

// pool is a model of masters, each of which takes the place of the one before, and of a node whose clock is not theirs.
type pool struct {
	now     time.Duration // true time
	skew    time.Duration // of the node's clock
	book    *Book
	masters []*master
	grants  []issued
}

type master struct {
	ahead  time.Duration // of its clock
	sealer *Sealer
	entry  *Entry
	clock  *Clock
	until  time.Duration // when what it promised is over, true time; 0 while it leads
}

type issued struct {
	grant transport.Grant
	claim Claim
	by    transport.Subject
	of    *master
	ends  time.Duration // true time
}

const (
	leaseTime = 5 * time.Second
	roundTrip = 200 * time.Millisecond
	pingEvery = 10 * time.Second
)

func (p *pool) local() time.Duration { return p.now + p.skew }

func (p *pool) leader() *master { return p.masters[len(p.masters)-1] }

// attach gives a new master a key.
func (p *pool) attach(t *rapid.T) {
	m := &master{ahead: time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "ahead")), clock: new(Clock)}
	m.entry = p.book.Add(Role{Clock: m.clock, Lead: true, Trusted: p.local() + leaseTime})
	m.sealer = NewSealer(m.entry.Number, m.entry.Key)
	p.ping(t, m)
	p.book.Close(p.local()+leaseTime, p.local()+2*leaseTime, func(e *Entry) bool { return e.Lead && e.Number < m.entry.Number })
	for _, o := range p.masters {
		if o.until == 0 {
			o.until = p.now + leaseTime
		}
	}
	p.masters = append(p.masters, m)
}

// ping has the node hear from a master.
func (p *pool) ping(t *rapid.T, m *master) {
	sent := p.local()
	p.now += time.Duration(rapid.Int64Range(0, int64(roundTrip)).Draw(t, "there"))
	shown := p.now + m.ahead
	p.now += time.Duration(rapid.Int64Range(0, int64(roundTrip)).Draw(t, "back"))
	m.clock.Hear(sent, p.local(), shown)
}

// TestModel: whatever masters, clocks and clients do, a node serves what a grant allows while its master's promises hold, and
// nothing else.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &pool{now: time.Hour, skew: time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "skew"))}
		p.book = NewBook(p.local)
		p.attach(t)
		subjects := []transport.Subject{SubjectOf("a"), SubjectOf("b")}
		kinds := []transport.OpKind{transport.Read, transport.Write}
		t.Repeat(map[string]func(*rapid.T){
			"issue": func(t *rapid.T) { // Also a master that does not know that it was deposed.
				m := rapid.SampledFrom(p.masters).Draw(t, "master")
				i := issued{of: m, by: rapid.SampledFrom(subjects).Draw(t, "by"), ends: p.now + leaseTime}
				i.claim = Claim{
					Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Offset: rapid.Uint64Range(0, 100).Draw(t, "offset"),
					Length: rapid.Uint64Range(1, 100).Draw(t, "length"), Until: p.now + m.ahead + leaseTime,
				}
				m.sealer.Seal(&i.grant, i.claim, i.by)
				p.grants = append(p.grants, i)
			},
			"time": func(t *rapid.T) {
				for range rapid.IntRange(1, 3).Draw(t, "steps") {
					p.now += time.Duration(rapid.Int64Range(0, int64(3*time.Second)).Draw(t, "step"))
					p.ping(t, p.leader())
				}
			},
			"failover": p.attach,
			"use": func(t *rapid.T) {
				if len(p.grants) == 0 {
					t.Skip("there is none")
				}
				i := rapid.SampledFrom(p.grants).Draw(t, "grant")
				by, kind := rapid.SampledFrom(subjects).Draw(t, "who"), rapid.SampledFrom(kinds).Draw(t, "what")
				at, size := rapid.Uint64Range(0, 250).Draw(t, "at"), rapid.Uint64Range(1, 120).Draw(t, "size")
				got := p.book.Check(&i.grant, by, kind, at, size)
				if by != i.by || kind != i.claim.Kind || at < i.claim.Offset || at+size > i.claim.Offset+i.claim.Length {
					require.NotEqual(t, transport.GrantGood, got, "of another identity, direction or range")
					return
				}
				ends := i.ends
				if of := i.of.until; of != 0 {
					if kind == transport.Write {
						of += leaseTime
					}
					ends = min(ends, of)
				}
				if p.now >= ends+time.Millisecond {
					require.Equal(t, transport.GrantOver, got, "it ended %s ago", p.now-ends)
				}
				// The bound on the master's clock is late by a round trip at most, and by drift since a master was deposed.
				if early := 2*roundTrip + 50*time.Millisecond; len(p.masters) < maxKeys && p.now < ends-early {
					require.Equal(t, transport.GrantGood, got, "it lasts for another %s", ends-p.now)
				}
			},
			"": func(t *rapid.T) { require.LessOrEqual(t, p.book.Keys(), maxKeys) },
		})
	})
}

// TestTheKeyOfAMasterThatLeadsStays: followers that come and go do not push it out.
func TestTheKeyOfAMasterThatLeadsStays(t *testing.T) {
	now := time.Duration(0)
	b, c := NewBook(func() time.Duration { return now }), new(Clock)
	c.Hear(0, 0, 0)
	lead := b.Add(Role{Clock: c, Lead: true})
	for range 10 * maxKeys {
		f := b.Add(Role{Clock: new(Clock)})
		b.Close(time.Hour, time.Hour, func(e *Entry) bool { return e.Number == f.Number })
	}
	var g transport.Grant
	by := SubjectOf("a")
	NewSealer(lead.Number, lead.Key).Seal(&g, Claim{transport.Read, 0, 8, time.Hour}, by)
	require.Equal(t, transport.GrantGood, b.Check(&g, by, transport.Read, 0, 8))
	require.LessOrEqual(t, b.Keys(), maxKeys)
	now = 2 * time.Hour
	b.Close(now, now, func(*Entry) bool { return false })
	require.Equal(t, 1, b.Keys(), "keys that are over are forgotten")
}

// TestBeforeTheFirstAnswer: a grant that a master made while its answer was on its way counts for a while.
func TestBeforeTheFirstAnswer(t *testing.T) {
	now := time.Duration(0)
	b := NewBook(func() time.Duration { return now })
	e := b.Add(Role{Clock: new(Clock), Lead: true, Trusted: time.Second})
	var g transport.Grant
	NewSealer(e.Number, e.Key).Seal(&g, Claim{transport.Write, 0, 8, time.Hour}, transport.Subject{})
	require.Equal(t, transport.GrantGood, b.Check(&g, transport.Subject{}, transport.Write, 0, 8))
	now = time.Second
	require.Equal(t, transport.GrantOver, b.Check(&g, transport.Subject{}, transport.Write, 0, 8))
	b.Add(Role{Clock: new(Clock), Lead: true})
	require.Equal(t, 1, b.Keys(), "a key whose master never answered gives way to the next one")
}

// FuzzCheck: no bytes but those of the sealer pass.
func FuzzCheck(f *testing.F) {
	b, c := NewBook(func() time.Duration { return 0 }), new(Clock)
	c.Hear(0, 0, 0)
	e := b.Add(Role{Clock: c})
	var good transport.Grant
	by := SubjectOf("a")
	NewSealer(e.Number, e.Key).Seal(&good, Claim{transport.Read, 1 << 40, 1 << 20, time.Hour}, by)
	f.Add(good[:], uint64(1<<40), uint64(1))
	f.Add(make([]byte, transport.GrantSize), uint64(0), uint64(0))
	f.Fuzz(func(t *testing.T, raw []byte, offset, size uint64) {
		var g transport.Grant
		copy(g[:], raw)
		got := b.Check(&g, by, transport.Read, offset, size)
		require.LessOrEqual(t, got, transport.GrantOver)
		if got == transport.GrantGood {
			require.Equal(t, good, g)
			require.True(t, offset >= 1<<40 && size <= 1<<20 && offset-1<<40 <= 1<<20-size)
		}
	})
}

// TestClock: the bound is never before what the other clock shows, and late by the best answer's time and drift at most, whatever the
// answers took and however the clocks drift.
func TestClock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := 1 + rapid.Float64Range(-drift, drift).Draw(t, "rate")/2
		ahead := time.Duration(rapid.Int64Range(int64(-time.Hour), int64(time.Hour)).Draw(t, "ahead"))
		now, other := time.Hour, func(at time.Duration) time.Duration { return 2*time.Hour + ahead + time.Duration(rate*float64(at)) }
		c := new(Clock)
		_, heard := c.Latest(now)
		require.False(t, heard)
		for range rapid.IntRange(1, 20).Draw(t, "answers") {
			sent := now
			there, back := rapid.Int64Range(0, int64(time.Second)).Draw(t, "there"), rapid.Int64Range(0, int64(time.Second)).Draw(t, "back")
			now = sent + time.Duration(there+back)
			c.Hear(sent, now, other(sent+time.Duration(there)))
			for range 3 {
				bound, heard := c.Latest(now)
				require.True(t, heard)
				require.GreaterOrEqual(t, bound+time.Microsecond, other(now), "not before")
				require.LessOrEqual(t, bound-other(now), time.Duration(there+back)+time.Duration(2*drift*float64(now-sent))+time.Microsecond, "not late")
				now += time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "pause"))
			}
		}
	})
}
