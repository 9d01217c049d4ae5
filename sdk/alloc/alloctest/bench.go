package alloctest

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// benchBatch is how many objects a master handles at once.
const benchBatch = 256

// Bench measures an allocator: the time of one allocation or free, in a space that holds
// a million pages, and in a full space under loads of mixed sizes, with the utilisation
// that Utilisation measures.
func Bench(b *testing.B, f alloc.Factory) {
	b.Run("pages=1000000", func(b *testing.B) { benchPages(b, f, 1_000_000) })
	for _, l := range Loads() {
		b.Run(l.Name, func(b *testing.B) { benchLoad(b, f, l) })
	}
}

// benchPages frees a random page and allocates one, in turn.
func benchPages(b *testing.B, f alloc.Factory, pages int) {
	s := newSubject(b, &subjects{f: f}, alloc.Space{ID: 1, Size: uint64(pages) * mib})
	ctx := context.Background()
	held := make([]alloc.Extent, 0, pages)
	requests := make([]alloc.Request, benchBatch)
	for i := range requests {
		requests[i] = alloc.Request{Size: mib, Candidates: []alloc.SpaceID{1}}
	}
	for len(held) < pages {
		for _, r := range s.alloc(requests[:min(benchBatch, pages-len(held))]...) {
			require.NoError(b, r.Err)
			held = append(held, r.Extent)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if n%benchBatch != 0 {
			continue // one turn of the loop is one free and one allocation
		}
		for i := range benchBatch {
			j := i + rng.IntN(len(held)-i)
			held[i], held[j] = held[j], held[i]
		}
		if bad, err := s.a.Free(ctx, held[:benchBatch]); bad != nil || err != nil {
			b.Fatal(bad, err)
		}
		results, err := s.a.Alloc(ctx, requests)
		if err != nil {
			b.Fatal(err)
		}
		for i, r := range results {
			if r.Err != nil {
				b.Fatal(r.Err)
			}
			held[i] = r.Extent
		}
	}
}

// Load is a mix of sizes that keeps a space full.
type Load struct {
	Name string
	// Space is the size of the space that Bench fills.
	Space uint64
	// Size draws the next size.
	Size func(*rand.Rand) uint64
	// Oldest frees the oldest extents when the space is full; otherwise random ones go.
	Oldest bool
}

// Loads are the mixes that Bench measures. The pair is what one block of a model with
// sparse attention takes: 3.12 MB of cache and 643 KB of index.
func Loads() []Load {
	pair := func(r *rand.Rand) uint64 {
		if r.IntN(2) == 0 {
			return 3_120_000
		}
		return 643_000
	}
	uniform := func(r *rand.Rand) uint64 { return 1 + r.Uint64N(8*mib) }
	small := func(r *rand.Rand) uint64 { return 1 + r.Uint64N(64*kib) }
	return []Load{
		{Name: "pair,random", Space: 1 << 40, Size: pair},
		{Name: "pair,oldest", Space: 1 << 40, Size: pair, Oldest: true},
		{Name: "uniform8M,random", Space: 1 << 40, Size: uniform},
		{Name: "uniform8M,oldest", Space: 1 << 40, Size: uniform, Oldest: true},
		{Name: "uniform64K,random", Space: 16 << 30, Size: small},
	}
}

// churn keeps one space full.
type churn struct {
	tb        conformance.TB
	a         alloc.Allocator
	space     uint64
	load      Load
	rng       *rand.Rand
	held      []alloc.Extent
	first     int // with Oldest, the oldest extent in held
	requested uint64
	ops       int // calls for one extent, refusals included
}

// newChurn fills a space until it refuses.
func newChurn(tb conformance.TB, f alloc.Factory, l Load, space uint64) *churn {
	s := newSubject(tb, &subjects{f: f}, alloc.Space{ID: 1, Size: space})
	c := &churn{tb: tb, a: s.a, space: space, load: l, rng: rand.New(rand.NewPCG(3, 4))}
	for c.put() == 0 {
	}
	return c
}

// turn puts n extents and returns the mean share of the space that was asked for at the
// moments when it refused.
func (c *churn) turn(n int) float64 {
	sum, refusals := 0.0, 0
	for range n {
		if full := c.put(); full > 0 {
			sum += full
			refusals++
		}
	}
	return sum / float64(max(1, refusals))
}

// put allocates one size and frees until it fits. full is the share of the space that was
// asked for when the space first refused; 0 when it did not.
func (c *churn) put() (full float64) {
	request := []alloc.Request{{Size: c.load.Size(c.rng), Candidates: []alloc.SpaceID{1}}}
	for {
		results, err := c.a.Alloc(context.Background(), request)
		if err != nil {
			c.tb.Fatal(err)
		}
		c.ops++
		if results[0].Err == nil {
			c.held = append(c.held, results[0].Extent)
			c.requested += request[0].Size
			return full
		}
		if !errs.Is(results[0].Err, errs.NoAvailableHandle) {
			c.tb.Fatal(results[0].Err)
		}
		if full == 0 {
			full = float64(c.requested) / float64(c.space)
		}
		c.drop()
	}
}

func (c *churn) drop() {
	i := c.first
	if !c.load.Oldest {
		i = c.rng.IntN(len(c.held))
		last := len(c.held) - 1
		c.held[i], c.held[last] = c.held[last], c.held[i]
		i = last
	}
	if bad, err := c.a.Free(context.Background(), c.held[i:i+1]); bad != nil || err != nil {
		c.tb.Fatal(bad, err)
	}
	c.requested -= c.held[i].Size
	c.ops++
	if !c.load.Oldest {
		c.held = c.held[:i]
		return
	}
	if c.first++; c.first > len(c.held)/2 {
		c.held = append(c.held[:0], c.held[c.first:]...)
		c.first = 0
	}
}

// Utilisation fills a space of f's allocator with a load, turns its content over so many
// times, and returns the mean share of the space that was asked for at the moments when it
// refused.
func Utilisation(tb conformance.TB, f alloc.Factory, l Load, space uint64, turns int) float64 {
	c := newChurn(tb, f, l, space)
	return c.turn(turns * (len(c.held) - c.first))
}

func benchLoad(b *testing.B, f alloc.Factory, l Load) {
	c := newChurn(b, f, l, l.Space)
	c.turn(2 * len(c.held))
	c.ops = 0
	b.ReportAllocs()
	b.ResetTimer()
	full := c.turn(b.N)
	b.ReportMetric(float64(b.Elapsed())/float64(c.ops), "ns/call")
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(full, "utilisation")
}
