package oracle

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/bench/trace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestByHand follows traces that were worked out on paper.
func TestByHand(t *testing.T) {
	type step struct {
		blocks []uint64
		hits   int
	}
	cases := []struct {
		name     string
		capacity int
		rule     Rule
		steps    []step
		evicted  int
	}{
		{"a prefix grows", 10, Rule{}, []step{{[]uint64{1, 2}, 0}, {[]uint64{1, 2, 3}, 2}, {[]uint64{1, 2, 3, 4}, 3}, {[]uint64{1, 9, 3}, 1}}, 0},
		{"a miss ends the prefix", 10, Rule{}, []step{{[]uint64{2, 3}, 0}, {[]uint64{1, 2, 3}, 0}}, 0},
		{"unless each block counts", 10, Rule{EachBlock: true}, []step{{[]uint64{2, 3}, 0}, {[]uint64{1, 2, 3}, 2}}, 0},
		// 1 2 3 are in; reading 1 makes 2 the oldest, so 4 takes its place.
		{"a read makes recent", 3, Rule{}, []step{{[]uint64{1, 2, 3}, 0}, {[]uint64{1, 4}, 1}, {[]uint64{2}, 0}, {[]uint64{1}, 1}}, 2},
		// 5 is new and drops 1; 2 is there, keeps its rank, and is the next to go.
		{"a refused put does not", 3, Rule{}, []step{{[]uint64{1, 2, 3}, 0}, {[]uint64{5, 2}, 0}, {[]uint64{6}, 0}, {[]uint64{2}, 0}}, 3},
		{"a refused put does by rule", 3, Rule{PutTouches: true}, []step{{[]uint64{1, 2, 3}, 0}, {[]uint64{5, 2}, 0}, {[]uint64{6}, 0}, {[]uint64{2}, 1}}, 2},
		// The lookup makes 2 recent before 5 is put, which drops 1; then 6 drops 3.
		{"a lookup does by rule", 3, Rule{LookupTouches: true}, []step{{[]uint64{1, 2, 3}, 0}, {[]uint64{5, 2}, 0}, {[]uint64{6}, 0}, {[]uint64{2}, 1}}, 2},
		// The request drops its own first blocks, then each one that it is about to put.
		{"a request larger than the pool", 2, Rule{}, []step{{[]uint64{1, 2, 3}, 0}, {[]uint64{1, 2, 3}, 0}, {[]uint64{2, 3}, 2}}, 4},
		{"the same block twice", 2, Rule{}, []step{{[]uint64{1, 1}, 0}, {[]uint64{1, 1, 1}, 3}}, 0},
		{"no pool at all", 0, Rule{}, []step{{[]uint64{1}, 0}, {[]uint64{1}, 0}}, 0},
		{"an empty request", 1, Rule{}, []step{{nil, 0}}, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			o := New(c.capacity, c.rule)
			total := 0
			for i, s := range c.steps {
				require.Equal(t, s.hits, o.Request(s.blocks), "request %d", i)
				total += s.hits
			}
			require.Equal(t, total, o.Count().Hits)
			require.Equal(t, c.evicted, o.Count().Evictions)
			require.Equal(t, len(c.steps), o.Count().Requests)
		})
	}
}

// TestAgainstASlice compares with the plainest model there is: a slice in order of use.
func TestAgainstASlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(1, 6).Draw(t, "capacity")
		rule := Rule{EachBlock: rapid.Bool().Draw(t, "each"), LookupTouches: rapid.Bool().Draw(t, "lookup"), PutTouches: rapid.Bool().Draw(t, "put")}
		o := New(capacity, rule)
		var order []uint64 // oldest first
		touch := func(b uint64) {
			if i := slices.Index(order, b); i >= 0 {
				order = append(slices.Delete(order, i, i+1), b)
			}
		}
		insert := func(b uint64) {
			if len(order) == capacity {
				order = order[1:]
			}
			order = append(order, b)
		}
		for range rapid.IntRange(1, 30).Draw(t, "requests") {
			blocks := rapid.SliceOfN(rapid.Uint64Range(0, 9), 0, 8).Draw(t, "blocks")
			hits, ended := 0, false
			before := slices.Clone(order)
			if rule.LookupTouches && !rule.EachBlock {
				for _, b := range blocks {
					touch(b)
				}
			}
			for _, b := range blocks {
				if rule.EachBlock {
					before = order
				}
				there := slices.Contains(before, b)
				switch {
				case there && (!ended || rule.EachBlock):
					hits++
					touch(b)
				case slices.Contains(order, b):
					ended = true
					if rule.PutTouches {
						touch(b)
					}
				default:
					ended = true
					insert(b)
				}
			}
			require.Equal(t, hits, o.Request(blocks))
		}
	})
}

func TestRun(t *testing.T) {
	src := trace.FromSlice([]trace.Request{{Blocks: []uint64{1, 2}}, {Blocks: []uint64{1, 2, 3}}})
	got, err := Run(src, 2, Rule{})
	require.NoError(t, err)
	require.Equal(t, Count{Requests: 2, Lookups: 5, Hits: 2, Inserts: 3, Evictions: 1}, got)
	require.InDelta(t, 0.4, got.HitRatio(), 1e-12)
	require.Zero(t, Count{}.HitRatio())
	_, err = Run(badSource{}, 1, Rule{})
	require.ErrorIs(t, err, os.ErrInvalid)
}

type badSource struct{}

func (badSource) Next() (trace.Request, error) { return trace.Request{}, os.ErrInvalid }

// TestPublishedTraces reproduces the LRU hit ratios of the published traces. It needs the
// folder with the traces in TRACE_DIR.
func TestPublishedTraces(t *testing.T) {
	dir := os.Getenv("TRACE_DIR")
	if dir == "" {
		t.Skip("TRACE_DIR is not set to the folder of the published traces")
	}
	capacities := []int{1000, 5000, 10000, 30000, 50000}
	for name, want := range map[string][]string{
		"conversation": {"0.0445", "0.1104", "0.2112", "0.3257", "0.3546"},
		"synthetic":    {"0.0825", "0.2791", "0.4235", "0.6242", "0.6396"},
	} {
		for i, capacity := range capacities {
			f, err := os.Open(filepath.Join(dir, name+"_trace.jsonl"))
			require.NoError(t, err)
			each, err := Run(trace.NewReader(f), capacity, Rule{EachBlock: true})
			require.NoError(t, err)
			require.Equal(t, want[i], fmt.Sprintf("%.4f", each.HitRatio()), "%s at %d", name, capacity)
			_, err = f.Seek(0, 0)
			require.NoError(t, err)
			prefix, err := Run(trace.NewReader(f), capacity, Rule{})
			require.NoError(t, err)
			require.NoError(t, f.Close())
			t.Logf("%s at %d blocks: each block %.4f, prefix %.4f", name, capacity, each.HitRatio(), prefix.HitRatio())
		}
	}
}

// A pool of three holds 2, 3, 4, oldest first, and 1 has been evicted. Putting 1 and 2 one
// by one throws 2 out to make space for 1 and then stores 2 again; in one call 2 is seen
// before space is made.
func TestPutBatchLooksBeforeItMakesSpace(t *testing.T) {
	count := func(rule Rule) Count {
		o := New(3, rule)
		for _, r := range [][]uint64{{1}, {2}, {3}, {4}, {1, 2}} {
			o.Request(r)
		}
		return o.Count()
	}
	if one := count(Rule{PutTouches: true}); one.Inserts != 6 || one.Evictions != 3 {
		t.Errorf("one by one: %+v", one)
	}
	if both := count(Rule{PutTouches: true, PutBatch: 8}); both.Inserts != 5 || both.Evictions != 2 {
		t.Errorf("in one call: %+v", both)
	}
}
