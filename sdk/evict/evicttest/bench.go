package evicttest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/evict"
)

// benchBatch is how many events a master passes in one call.
const benchBatch = 256

// Bench measures a policy that knows a million objects: an access at random, and a full
// turn (insert one, propose one, evict it). Both figures are for one object.
func Bench(b *testing.B, f evict.Factory) {
	for _, objects := range []int{1_000, 1_000_000} {
		b.Run(fmt.Sprintf("objects=%d", objects), func(b *testing.B) { benchSize(b, f, objects) })
	}
}

func benchSize(b *testing.B, f evict.Factory, objects int) {
	ctx := context.Background()
	s := newSubject(b, &subjects{f: f})
	for first := 1; first <= objects; first += benchBatch {
		sizes := make([]uint64, min(benchBatch, objects-first+1))
		for i := range sizes {
			sizes[i] = 1
		}
		s.insert(evict.ID(first), sizes...)
	}
	next := evict.ID(objects) + 1
	oldest := evict.ID(1)
	events := make([]evict.Event, benchBatch)
	b.Run("access", func(b *testing.B) {
		rng := rand.New(rand.NewPCG(1, 2))
		b.ReportAllocs()
		for n := 0; n < b.N; n += benchBatch {
			for i := range events {
				events[i] = evict.Event{Op: evict.Access, ID: oldest + evict.ID(rng.IntN(objects))}
			}
			require.NoError(b, s.p.Record(ctx, events))
		}
	})
	b.Run("turnover", func(b *testing.B) {
		candidates := make([]evict.Candidate, 0, benchBatch)
		verdicts := make([]evict.Verdict, benchBatch)
		b.ReportAllocs()
		for n := 0; n < b.N; n += benchBatch {
			for i := range events {
				events[i] = evict.Event{Op: evict.Insert, ID: next, Size: 1}
				next++
			}
			require.NoError(b, s.p.Record(ctx, events))
			got, err := s.p.Propose(ctx, candidates, benchBatch)
			require.NoError(b, err)
			for i, c := range got {
				verdicts[i] = evict.Verdict{ID: c.ID, Evicted: true}
			}
			require.NoError(b, s.p.Resolve(ctx, verdicts[:len(got)]))
		}
	})
}
