package evicttest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/conformance/internal/rig"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Run holds the policies of f to the contract. It makes about a dozen of them, with the
// default configuration, and about ten thousand calls.
func Run(t *testing.T, f evict.Factory) {
	t.Run("component", func(t *testing.T) { rig.Component(t, f, plugin.KindEvict, evict.API(), f.New) })
	t.Run("record", func(t *testing.T) { testRecord(t, f) })
	t.Run("propose", func(t *testing.T) { testPropose(t, f) })
	t.Run("resolve", func(t *testing.T) { testResolve(t, f) })
	t.Run("hostile", func(t *testing.T) { testHostile(t, f) })
	t.Run("batches", func(t *testing.T) { testBatches(t, f) })
	t.Run("model", func(t *testing.T) { testModel(t, f) })
	t.Run("concurrent", func(t *testing.T) { testConcurrent(t, f) })
	t.Run("independent", func(t *testing.T) { testIndependent(t, f) })
}

// subject is a policy under test whose calls must all succeed.
type subject struct {
	t require.TestingT
	p evict.Policy
}

func newSubject(tb testing.TB, f evict.Factory) subject {
	tb.Helper()
	p, err := f.New(f.DefaultConfig())
	return subject{t: tb, p: rig.Start(tb, p, err)}
}

func (s subject) record(events ...evict.Event) {
	require.NoError(s.t, s.p.Record(context.Background(), events), "Record")
}

// insert records objects with the IDs from first on, one for each size.
func (s subject) insert(first evict.ID, sizes ...uint64) {
	events := make([]evict.Event, len(sizes))
	for i, size := range sizes {
		events[i] = evict.Event{Op: evict.Insert, ID: first + evict.ID(i), Size: size}
	}
	s.record(events...)
}

func (s subject) access(id evict.ID) { s.record(evict.Event{Op: evict.Access, ID: id}) }
func (s subject) remove(id evict.ID) { s.record(evict.Event{Op: evict.Remove, ID: id}) }

// propose asks for at most room victims.
func (s subject) propose(bytes uint64, room int) []evict.Candidate {
	got, err := s.p.Propose(context.Background(), make([]evict.Candidate, 0, room), bytes)
	require.NoError(s.t, err, "Propose")
	require.LessOrEqual(s.t, len(got), room, "more candidates than dst has room for")
	return got
}

// drain proposes everything that is ranked.
func (s subject) drain(room int) []evict.ID { return ids(s.propose(1<<63, room)) }

func (s subject) resolve(verdicts ...evict.Verdict) {
	require.NoError(s.t, s.p.Resolve(context.Background(), verdicts), "Resolve")
}

func (s subject) stats() evict.Stats {
	st, err := s.p.Stats(context.Background())
	require.NoError(s.t, err, "Stats")
	return st
}

// holds requires the counts.
func (s subject) holds(objects, bytes, proposed uint64) {
	require.Equal(s.t, evict.Stats{Objects: objects, Bytes: bytes, Proposed: proposed}, s.stats())
}

func ids(cs []evict.Candidate) []evict.ID {
	out := make([]evict.ID, len(cs))
	for i, c := range cs {
		out[i] = c.ID
	}
	return out
}

func evicted(id evict.ID) evict.Verdict { return evict.Verdict{ID: id, Evicted: true} }
func spared(id evict.ID) evict.Verdict  { return evict.Verdict{ID: id} }
