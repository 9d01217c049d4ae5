package s3fifo_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	s3fifo "github.com/mooncake-go/mooncake/plugins/evict-s3fifo"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/evict/evicttest"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) { evicttest.Run(t, s3fifo.Factory()) }

func TestConformanceThroughTheWire(t *testing.T) {
	evicttest.Run(t, evicttest.ThroughWire(t, s3fifo.Factory()))
}

func newPolicy(tb testing.TB, cfg *s3fifo.Config) evict.Policy {
	tb.Helper()
	require.NoError(tb, plugin.Validate(cfg))
	p, err := s3fifo.Factory().New(cfg)
	require.NoError(tb, err)
	return p
}

func record(t require.TestingT, p evict.Policy, op evict.Op, ids ...evict.ID) {
	events := make([]evict.Event, len(ids))
	for i, id := range ids {
		events[i] = evict.Event{Op: op, ID: id, Size: 1, Fingerprint: key(id)}
	}
	require.NoError(t, p.Record(context.Background(), events))
}

func propose(t require.TestingT, p evict.Policy, n int) []evict.ID {
	got, err := p.Propose(context.Background(), make([]evict.Candidate, 0, n), uint64(n))
	require.NoError(t, err)
	ids := make([]evict.ID, len(got))
	for i, c := range got {
		ids[i] = c.ID
	}
	return ids
}

func resolve(t require.TestingT, p evict.Policy, evicted bool, ids ...evict.ID) {
	verdicts := make([]evict.Verdict, len(ids))
	for i, id := range ids {
		verdicts[i] = evict.Verdict{ID: id, Evicted: evicted}
	}
	require.NoError(t, p.Resolve(context.Background(), verdicts))
}

// key is the fingerprint of an object. IDs that are equal modulo 1000 are of one key.
func key(id evict.ID) uint64 { return uint64(id%1000) << 40 }

func TestSettings(t *testing.T) {
	cases := []struct {
		key    string
		change func(*s3fifo.Config)
	}{
		{"NaN", func(c *s3fifo.Config) { c.SmallRatio = math.NaN() }},
		{"small_ratio", func(c *s3fifo.Config) { c.SmallRatio = 0.95 }},
		{"Inf", func(c *s3fifo.Config) { c.GhostRatio = math.Inf(1) }},
		{"ghost_ratio", func(c *s3fifo.Config) { c.GhostRatio = -1 }},
		{"promote_reads", func(c *s3fifo.Config) { c.PromoteReads = 0 }},
		{"promote_reads", func(c *s3fifo.Config) { c.PromoteReads = 4 }},
	}
	for _, c := range cases {
		cfg := s3fifo.DefaultConfig()
		require.NoError(t, plugin.Validate(cfg))
		c.change(cfg)
		assert.ErrorContains(t, plugin.Validate(cfg), c.key)
	}
}

func TestPromoteReads(t *testing.T) {
	cfg := s3fifo.DefaultConfig()
	cfg.PromoteReads = 2
	p := newPolicy(t, cfg)
	record(t, p, evict.Insert, 1, 2, 3, 4)
	record(t, p, evict.Access, 1, 2, 2, 3, 3, 3)
	assert.Equal(t, []evict.ID{1, 4, 2, 3}, propose(t, p, 9), "2 and 3 are promoted, and their reads count anew")
}

func TestReadsInTheMainQueue(t *testing.T) {
	p := newPolicy(t, s3fifo.DefaultConfig())
	record(t, p, evict.Insert, 1, 2, 3, 4)
	record(t, p, evict.Access, 1, 1, 2, 2, 3, 3)
	require.Equal(t, []evict.ID{4}, propose(t, p, 1))
	record(t, p, evict.Access, 1, 1, 1, 1, 1, 2)
	assert.Equal(t, []evict.ID{3, 2, 1}, propose(t, p, 9))
}

// TestGhost: an object whose key was evicted out of the small queue comes back into the
// main one, under a new ID; others do not.
func TestGhost(t *testing.T) {
	for name, c := range map[string]struct {
		ghosts float64
		want   []evict.ID
	}{
		"remembered": {1, []evict.ID{5, 1001}},
		"forgotten":  {0, []evict.ID{1001, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := s3fifo.DefaultConfig()
			cfg.GhostRatio = c.ghosts
			p := newPolicy(t, cfg)
			record(t, p, evict.Insert, 1, 2, 3)
			require.Equal(t, []evict.ID{1}, propose(t, p, 1))
			resolve(t, p, true, 1)
			record(t, p, evict.Remove, 2, 3)
			record(t, p, evict.Insert, 1001, 5)
			assert.Equal(t, c.want, propose(t, p, 9))
		})
	}
}

func TestRemovedAndUnknownAreNotRemembered(t *testing.T) {
	p := newPolicy(t, s3fifo.DefaultConfig())
	record(t, p, evict.Insert, 1, 1000, 3, 4) // the key of 1000 has the fingerprint 0
	require.Equal(t, []evict.ID{1, 1000}, propose(t, p, 2))
	record(t, p, evict.Remove, 1)
	resolve(t, p, true, 1, 1000)
	record(t, p, evict.Insert, 1001, 2000, 5)
	assert.Equal(t, []evict.ID{3, 4, 1001, 2000, 5}, propose(t, p, 9), "all are in the small queue")
}

func TestRetainedWaitForTheNextInsert(t *testing.T) {
	cfg := s3fifo.DefaultConfig()
	p := newPolicy(t, cfg)
	record(t, p, evict.Insert, 1, 2, 3)
	require.Equal(t, []evict.ID{1}, propose(t, p, 1))
	resolve(t, p, false, 1)
	record(t, p, evict.Access, 2, 2, 2)
	require.Equal(t, []evict.ID{3, 2}, propose(t, p, 2), "2 is promoted, and still goes before 1")
	resolve(t, p, false, 3, 2)
	record(t, p, evict.Insert, 4)
	assert.Equal(t, []evict.ID{4, 1, 3, 2}, propose(t, p, 9), "all have one read to their name")
}

func TestRetainedCountAsReadAfterTheNextInsert(t *testing.T) {
	p := newPolicy(t, s3fifo.DefaultConfig())
	record(t, p, evict.Insert, 1, 2)
	require.Equal(t, []evict.ID{1, 2}, propose(t, p, 2))
	resolve(t, p, true, 2)
	resolve(t, p, false, 1)
	record(t, p, evict.Insert, 1002) // remembered, so it enters the main queue
	require.Equal(t, []evict.ID{1002, 1}, propose(t, p, 2), "1 goes around once for being retained")
	resolve(t, p, false, 1002, 1)
	record(t, p, evict.Insert, 5)
	require.Equal(t, []evict.ID{5}, propose(t, p, 1))
	record(t, p, evict.Access, 1002, 1002)
	assert.Equal(t, []evict.ID{1, 1002}, propose(t, p, 2), "the retained one is of the main queue again")
}
