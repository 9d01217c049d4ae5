package session

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPeerBookIsBounded(t *testing.T) {
	b, now := newPeerBook(10), time.Now()
	for i := range 100 {
		name := fmt.Sprint("peer", i)
		b.begin(name, now)
		b.end(&tally{endpoint: name, done: 1, bytes: 5, last: now.Add(time.Second)})
	}
	require.Len(t, b.take(now), 10, "the others found no space")
	b.begin("another", now)
	b.end(&tally{endpoint: "another", failed: 1, last: now})
	require.Len(t, b.seen, 10)
	require.Len(t, b.take(now), 1, "what was reported gives way")
	require.Empty(t, b.take(now))
	require.False(t, b.pending())
}

// An endpoint that fails again and again is avoided for longer and longer, and comes back
// step by step.
func TestTrustComesBackGradually(t *testing.T) {
	b, now := newPeerBook(10), time.Now()
	fail := func() {
		b.begin("p", now)
		b.end(&tally{endpoint: "p", began: now, failed: 1, last: now})
	}
	require.InDelta(t, 1.0, b.trust("p", now), 0)
	fail()
	require.Zero(t, b.trust("p", now.Add(minShun)))
	require.InDelta(t, 0.5, b.trust("p", now.Add(minShun+returning*minShun/2)), 0.01)
	require.InDelta(t, 1.0, b.trust("p", now.Add(minShun+returning*minShun)), 0)
	for range 20 {
		now = now.Add(patience)
		fail()
	}
	require.Zero(t, b.trust("p", now.Add(maxShun)))
	now = now.Add(maxShun * (1 + returning))
	require.InDelta(t, 1.0, b.trust("p", now), 0)
	b.begin("p", now)
	b.end(&tally{endpoint: "p", done: 1, last: now})
	fail()
	require.InDelta(t, 1.0, b.trust("p", now.Add(minShun*(1+returning))), 0, "what is long ago is forgotten")
}

// TestCallsThatFailTogetherCountOnce: however many calls an endpoint had in flight when it failed, it is
// avoided as long as after one. A read that left it counts too, but not in the report to the master.
func TestCallsThatFailTogetherCountOnce(t *testing.T) {
	b, now := newPeerBook(10), time.Now()
	for range 6 {
		b.begin("p", now)
	}
	b.end(&tally{endpoint: "p", began: now, stalled: true, last: now.Add(time.Second)})
	require.False(t, b.pending())
	for range 5 {
		b.end(&tally{endpoint: "p", began: now, failed: 1, last: now.Add(2 * time.Second)})
	}
	at := now.Add(time.Second)
	require.Zero(t, b.trust("p", at.Add(minShun)))
	require.InDelta(t, 1.0, b.trust("p", at.Add(minShun*(1+returning))), 0)
	require.EqualValues(t, 5, b.take(at)[0].Failed)

	b.begin("p", at)
	b.end(&tally{endpoint: "p", began: at, stalled: true, last: at})
	require.Zero(t, b.trust("p", at.Add(2*minShun)), "a call that began later counts again")
}

// TestOneCallFindsOutWhetherAnEndpointIsBack: while it is in flight, and until one has succeeded, other
// calls avoid the endpoint.
func TestOneCallFindsOutWhetherAnEndpointIsBack(t *testing.T) {
	b, now := newPeerBook(10), time.Now()
	b.begin("p", now)
	b.end(&tally{endpoint: "p", began: now, failed: 1, last: now})
	half := now.Add(minShun + returning*minShun/2)
	require.InDelta(t, 0.5, b.trust("p", half), 0.01)
	b.begin("p", half)
	require.Zero(t, b.trust("p", half))
	b.end(&tally{endpoint: "p", began: half, done: 1, last: half})
	b.begin("p", half)
	require.InDelta(t, 0.5, b.trust("p", half), 0.01, "it works, and gets its share back gradually")
}

// TestWaitingIsForRefusalsOfAMoment: only an endpoint that worked until a moment ago is worth waiting for. What fails meanwhile is
// the same failure, and one that stays away costs no second wait.
func TestWaitingIsForRefusalsOfAMoment(t *testing.T) {
	b, now := newPeerBook(10), time.Now()
	end := func(x tally) {
		x.endpoint, x.began, x.last = "p", now, now
		b.begin("p", now)
		b.end(&x)
	}
	require.False(t, b.worthWaiting("p", now), "nothing is known")
	end(tally{failed: 1})
	require.True(t, b.worthWaiting("p", now))
	for range 5 {
		now = now.Add(patience / 10)
		end(tally{failed: 1})
	}
	require.True(t, b.worthWaiting("p", now))
	require.InDelta(t, 1.0, b.trust("p", now.Add(minShun*(1+returning))), 0, "avoided as after one failure")
	now = now.Add(patience)
	require.False(t, b.worthWaiting("p", now))
	end(tally{failed: 1})
	require.False(t, b.worthWaiting("p", now), "it has had its wait")
	now = now.Add(maxShun * (1 + returning))
	end(tally{done: 1})
	end(tally{failed: 1, silent: true})
	require.False(t, b.worthWaiting("p", now), "nothing answered, so the call has waited already")
}
