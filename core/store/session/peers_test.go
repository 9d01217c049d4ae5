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
		b.end(&tally{endpoint: "p", failed: 1, last: now})
	}
	require.InDelta(t, 1.0, b.trust("p", now), 0)
	fail()
	require.Zero(t, b.trust("p", now.Add(minShun)))
	require.InDelta(t, 0.5, b.trust("p", now.Add(minShun+returning*minShun/2)), 0.01)
	require.InDelta(t, 1.0, b.trust("p", now.Add(minShun+returning*minShun)), 0)
	for range 20 {
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
