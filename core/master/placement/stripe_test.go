package placement

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/sdk/alloc"
)

func TestPieceSize(t *testing.T) {
	const k, m = 1 << 10, 1 << 20
	for _, c := range []struct {
		name                  string
		size, stripe, largest uint64
		want                  uint64
	}{
		{"fits", 5 * m, 8 * m, 16 * m, 5 * m},
		{"just fits", 8 * m, 8 * m, 8 * m, 8 * m},
		{"larger than a stripe", 9 * m, 8 * m, 16 * m, 8 * m},
		{"larger than a segment", 9 * m, 0, 4 * m, 4 * m},
		{"the segment is smaller than a stripe", 9 * m, 8 * m, 4*m + 5, 4 * m},
		{"no limit", 9 * m, 0, 16 * m, 9 * m},
		{"too many pieces are made larger", 640 * m, m, 64 * m, 10 * m},
		{"up to what there is", 64*m + 1, 4 * k, m + 4*k, m + 4*k},
		{"but no more", 64*m + 1, 4 * k, m, 0},
		{"a stripe below the unit", 9 * k, 1, m, 4 * k},
		{"segments below the unit", 9 * k, 0, 3 * k, 0},
		{"no segment", 1, 0, 0, 0},
		{"the largest number", 1<<64 - 1, 0, 1 << 60, 1 << 60},
	} {
		require.Equal(t, c.want, PieceSize(c.size, c.stripe, c.largest), c.name)
	}
}

func TestPiecesMakeTheObject(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Uint64Range(1, 1<<40).Draw(t, "size")
		stripe := rapid.OneOf(rapid.Just(uint64(0)), rapid.Uint64Range(1, 1<<41)).Draw(t, "stripe")
		largest := rapid.Uint64Range(1, 1<<41).Draw(t, "largest")
		n := rapid.IntRange(1, 100).Draw(t, "candidates")
		var candidates []alloc.SpaceID
		for i := range n {
			candidates = append(candidates, alloc.SpaceID(i+1))
		}
		piece := PieceSize(size, stripe, largest)
		requests := Stripe(nil, candidates, size, piece)
		if piece == 0 {
			require.Empty(t, requests)
			require.Greater(t, (size-1)/MaxPieces+1, largest/pieceUnit*pieceUnit, "it could have been cut")
			return
		}
		require.LessOrEqual(t, len(requests), MaxPieces)
		var sum uint64
		uses := map[alloc.SpaceID]int{}
		for i, r := range requests {
			sum += r.Size
			require.LessOrEqual(t, r.Size, largest)
			require.NotZero(t, r.Size)
			if i < len(requests)-1 {
				require.Zero(t, r.Size%pieceUnit)
			}
			require.ElementsMatch(t, candidates, r.Candidates, "each may fall back on all")
			uses[r.Candidates[0]]++
		}
		require.Equal(t, size, sum)
		require.Len(t, uses, min(len(requests), len(candidates)), "over as many segments as there are")
	})
}

func TestStripedCopiesShareNoName(t *testing.T) {
	w, _ := pool(t, "a", "b", "c", "d", "e")
	v := w.view()
	plan := NewPlanner(v, Random{}, Wish{Copies: 2})
	var names [2][]string
	for c, list := range plan.For("k").First(nil) {
		for _, r := range Stripe(nil, list, 10*pieceUnit, pieceUnit) {
			for _, id := range r.Candidates {
				names[c] = append(names[c], v.Space(id).Name)
			}
		}
	}
	for _, n := range names[0] {
		require.False(t, slices.Contains(names[1], n), n)
	}
	require.Nil(t, Stripe(nil, nil, 1, 1), "no candidates")
}

func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{1, 16, 1000} {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf("h%04d/n%04d", i, i))
		}
		w, all := pool(b, names...)
		for _, even := range []bool{true, false} {
			if !even {
				w.fail(all[0])
			}
			for _, name := range Names() {
				s, err := New(name)
				require.NoError(b, err)
				plan := NewPlanner(w.view(), s, Wish{Copies: 1, HostID: "h0000"})
				var lists [][]alloc.SpaceID
				b.Run(fmt.Sprintf("%s/segments=%d/even=%v", name, n, even), func(b *testing.B) {
					b.ReportAllocs()
					for b.Loop() {
						lists = plan.For("Qwen3-32B@tp4/0123456789abcdef0123456789abcdef").First(lists[:0])
					}
				})
			}
		}
		plan := NewPlanner(w.view(), Random{}, Wish{Copies: 2})
		var lists [][]alloc.SpaceID
		b.Run(fmt.Sprintf("two copies/segments=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				lists = plan.First(lists[:0])
			}
		})
	}
}
