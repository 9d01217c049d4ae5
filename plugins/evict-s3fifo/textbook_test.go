package s3fifo_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	s3fifo "github.com/mooncake-go/mooncake/plugins/evict-s3fifo"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/evict/evicttest"
)

// textbook is the algorithm of the paper on slices, with objects of one byte and shares of
// what there is.
type textbook struct {
	cfg         s3fifo.Config
	small, main []uint64
	ghost       []uint64
	reads       map[uint64]int
}

func (b *textbook) insert(key uint64) {
	b.reads[key] = 0
	if i := slices.Index(b.ghost, key); i >= 0 {
		b.ghost = slices.Delete(b.ghost, i, i+1)
		b.main = append(b.main, key)
	} else {
		b.small = append(b.small, key)
	}
}

func (b *textbook) evict() uint64 {
	for {
		n := len(b.small) + len(b.main)
		if len(b.main) == 0 || (len(b.small) > 0 && float64(len(b.small)) >= b.cfg.SmallRatio*float64(n)) {
			key := b.small[0]
			b.small = b.small[1:]
			if b.reads[key] >= b.cfg.PromoteReads {
				b.reads[key] = 0
				b.main = append(b.main, key)
				continue
			}
			delete(b.reads, key)
			b.ghost = append(b.ghost, key)
			for float64(len(b.ghost)) > b.cfg.GhostRatio*float64(n) {
				b.ghost = b.ghost[1:]
			}
			return key
		}
		key := b.main[0]
		b.main = b.main[1:]
		if b.reads[key] > 0 {
			b.reads[key]--
			b.main = append(b.main, key)
			continue
		}
		delete(b.reads, key)
		return key
	}
}

// TestTextbook compares request by request: the hits must be the same, and so must the
// victims.
func TestTextbook(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := s3fifo.Config{
			SmallRatio:   rapid.SampledFrom([]float64{0.1, 0.25, 0.5}).Draw(rt, "small"),
			GhostRatio:   rapid.SampledFrom([]float64{0, 0.5, 1, 2}).Draw(rt, "ghost"),
			PromoteReads: rapid.IntRange(1, 3).Draw(rt, "promote"),
		}
		capacity := rapid.IntRange(1, 40).Draw(rt, "capacity")
		p := newPolicy(t, &cfg)
		b := &textbook{cfg: cfg, reads: map[uint64]int{}}
		held := map[uint64]evict.ID{}
		next := evict.ID(1)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		for range 1000 {
			key := 1 + rng.Uint64N(1+rng.Uint64N(80)) // low keys come often
			if id, hit := held[key]; hit {
				b.reads[key] = min(b.reads[key]+1, 3)
				record(rt, p, evict.Access, id)
				continue
			}
			if len(held) == capacity {
				victim := b.evict()
				require.Equal(rt, []evict.ID{held[victim]}, propose(rt, p, 1))
				resolve(rt, p, true, held[victim])
				delete(held, victim)
			}
			b.insert(key)
			held[key] = next
			require.NoError(rt, p.Record(t.Context(), []evict.Event{{Op: evict.Insert, ID: next, Size: 1, Fingerprint: key}}))
			next++
		}
	})
}

func BenchmarkS3FIFO(b *testing.B) { evicttest.Bench(b, s3fifo.Factory()) }
