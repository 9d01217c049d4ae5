package rail

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/transfer/settings"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/matrix"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

func TestHealth(t *testing.T) {
	cfg := settings.DefaultConfig()
	now := time.Unix(1000, 0)
	var h health
	fail := func() { h.failed(&cfg, now, now) }
	for range cfg.RailErrors - 1 {
		fail()
	}
	now = now.Add(cfg.RailWindow)
	fail()
	require.Equal(t, "up", h.state(now), "old errors do not count")
	for range cfg.RailErrors - 1 {
		fail()
	}
	require.Equal(t, "paused", h.state(now))
	require.False(t, h.open(now, 0))
	until := h.until
	for range 10 { // Operations in flight fail as well.
		fail()
	}
	require.Equal(t, until, h.until, "the pause is not extended")

	for want := cfg.RailPause; ; want = min(2*want, cfg.MaxRailPause) {
		require.Equal(t, want, h.until.Sub(h.paused))
		now = h.until
		require.Equal(t, "returning", h.state(now))
		require.True(t, h.open(now, 0))
		require.False(t, h.open(now, 1), "one operation finds out")
		if want == cfg.MaxRailPause {
			break
		}
		fail()
		require.Equal(t, "paused", h.state(now), "it takes one error")
	}
	h.worked(h.paused.Add(-1), now)
	require.False(t, h.open(now, 1), "a late success says nothing")
	for share := 2; share < wholeShare; share *= 2 {
		h.worked(now, now)
		require.True(t, h.open(now, share-1))
		require.False(t, h.open(now, share))
	}
	h.worked(now, now)
	require.Equal(t, "up", h.state(now))
	require.True(t, h.open(now, 1_000_000))
	for range cfg.RailErrors {
		fail()
	}
	require.Equal(t, cfg.RailPause, h.until.Sub(h.paused), "the next pause is short again")
	h.worked(now, now)
	require.Equal(t, "returning", h.state(now), "a success of one who had no choice ends the pause")
	for range cfg.RailErrors {
		fail()
	}
	h.back(now)
	require.Equal(t, "returning", h.state(now), "so does the transport's word")
}

func TestSpeed(t *testing.T) {
	s := speed{nominal: 100e6}
	require.InDelta(t, 100e6, s.guess(5e6), 1)
	s.sample(speedSample-1, time.Nanosecond)
	s.sample(1<<20, 0)
	require.Zero(t, s.mean, "these say nothing")
	s.sample(1<<20, time.Hour)
	require.InDelta(t, 10e6, s.guess(5e6), 1, "a tenth of the nominal speed at least")
	for range 200 {
		s.sample(50<<20, time.Second)
	}
	require.InDelta(t, 50<<20, s.guess(5e6), 1e6)
	for range 200 {
		s.sample(50<<20, time.Microsecond)
	}
	require.InDelta(t, 1e9, s.guess(5e6), 1e6, "ten times at most")
	require.InDelta(t, 5e6, (&speed{}).guess(5e6), 1)
	require.InDelta(t, unknownSpeed, (&speed{}).guess(0), 1)
}

func TestPair(t *testing.T) {
	for name, c := range map[string]struct {
		here, there []string
		want        [][2]string
	}{
		"none":         {nil, []string{"x"}, nil},
		"same names":   {[]string{"a", "b"}, []string{"b", "a"}, [][2]string{{"a", "a"}, {"b", "b"}}},
		"some names":   {[]string{"a", "b"}, []string{"c", "b"}, [][2]string{{"b", "b"}, {"a", "c"}}},
		"more here":    {[]string{"a", "b", "c"}, []string{"x", "y"}, [][2]string{{"a", "x"}, {"b", "y"}, {"c", "x"}}},
		"more there":   {[]string{"a"}, []string{"x", "a", "y"}, [][2]string{{"a", "a"}, {"a", "x"}, {"a", "y"}}},
		"one in many":  {[]string{"a", "b", "c"}, []string{"b"}, [][2]string{{"b", "b"}, {"a", "b"}, {"c", "b"}}},
		"nothing same": {[]string{"a"}, []string{"x"}, [][2]string{{"a", "x"}}},
	} {
		require.ElementsMatch(t, c.want, pair(c.here, c.there), name)
	}
}

func TestTiers(t *testing.T) {
	parse := func(s string) matrix.Matrix {
		m, err := matrix.Parse([]byte(s))
		require.NoError(t, err)
		return m
	}
	r := tiers{here: parse(`{"cpu:0":[["a","b"],["c"]]}`), there: parse(`{"cuda:1":[["a","x"],[]]}`)}
	var list []*rail
	for _, h := range []string{"a", "b", "c"} {
		for _, there := range []string{"a", "x", "z"} {
			list = append(list, &rail{Rail: transport.Rail{Local: h, Remote: there}})
		}
	}
	at := Places{Local: "cpu:0", Remote: "cuda:1"}
	//              aa ax az ba bx bz ca cx cz
	want := []uint8{0, 1, 2, 1, 0, 2, 2, 2, 3}
	got := func() []uint8 {
		out := make([]uint8, len(list))
		for i, c := range r.of(at, list) {
			require.True(t, i == 0 || r.of(at, list)[i-1].tier <= c.tier, "the best first")
			out[c.rail] = c.tier
		}
		return out
	}
	require.Equal(t, want, got())
	require.Same(t, &r.of(at, list)[0], &r.of(at, list)[0], "remembered")
	at = Places{Local: matrix.Wildcard, Remote: "nowhere"}
	// All that the matrices name are near: a-a are a pair by name, b-x and c-x in order.
	want = []uint8{0, 1, 2, 1, 0, 2, 1, 0, 2}
	require.Equal(t, want, got())
	for i := range 3 * maxPlaces {
		at.Remote = string(rune('a' + i))
		r.of(at, list)
	}
	require.LessOrEqual(t, len(r.known), maxPlaces, "a peer may name any number of places")
}

// TestWhoIsBlamed: which failures speak against the rail that they happened on.
func TestWhoIsBlamed(t *testing.T) {
	cfg := settings.DefaultConfig()
	start := time.Unix(1000, 0)
	after := func(d time.Duration) time.Time { return start.Add(d) }
	failed := func(class errs.Class) transport.Completion {
		return transport.Completion{Status: transport.Failed, Err: errs.WithClass(class, "test", errors.New("no"))}
	}
	path := failed(errs.ClassTransientPath)
	for name, c := range map[string]struct {
		deadline, now, last time.Time
		end                 transport.Completion
		want                bool
	}{
		"an error before the deadline":            {after(time.Second), after(time.Millisecond), time.Time{}, path, true},
		"the deadline, nothing arrived for long":  {after(time.Second), after(time.Second), after(-1), path, true},
		"the deadline, others were served":        {after(time.Second), after(time.Second), after(time.Millisecond), path, false},
		"the deadline of a caller in a hurry":     {after(time.Millisecond), after(time.Millisecond), time.Time{}, path, false},
		"an error although others were served":    {after(time.Second), after(time.Millisecond), after(1), path, true},
		"a request that is wrong":                 {after(time.Second), after(1), time.Time{}, failed(errs.ClassPermanent), false},
		"a peer that is gone":                     {after(time.Second), after(1), time.Time{}, failed(errs.ClassTransientPeer), false},
		"a device of this machine that is broken": {after(time.Second), after(1), time.Time{}, failed(errs.ClassLocalDevice), true},
	} {
		require.Equal(t, c.want, (&Set{cfg: &cfg}).blames(&Claim{Started: start, Deadline: c.deadline, Rail: &rail{last: c.last}}, c.end, c.now), name)
	}
}

// TestWorkingRailIsNotPausedByDeadlines: many deadlines pass on a slow rail on which
// bytes arrive all the time.
func TestWorkingRailIsNotPausedByDeadlines(t *testing.T) {
	cfg := settings.DefaultConfig()
	w := &rail{Rail: transport.Rail{Up: true}, slices: 1000}
	r := &Set{cfg: &cfg, list: []*rail{w}}
	start := time.Unix(1000, 0)
	late := transport.Completion{Status: transport.Failed, Err: errs.WithClass(errs.ClassTransientPath, "test", errors.New("late"))}
	for i := range 4 * cfg.RailErrors {
		now := start.Add(time.Second + time.Duration(i)*time.Millisecond)
		r.count(&Claim{Rail: w, Started: start}, transport.Completion{Status: transport.OK}, now)
		r.count(&Claim{Rail: w, Started: start, Deadline: now}, late, now)
	}
	require.Zero(t, w.health.pauses)
	silent := start.Add(time.Minute)
	for range cfg.RailErrors {
		r.count(&Claim{Rail: w, Started: silent, Deadline: silent.Add(time.Second)}, late, silent.Add(time.Second))
	}
	require.EqualValues(t, 1, w.health.pauses, "one on which nothing arrives is")
}
