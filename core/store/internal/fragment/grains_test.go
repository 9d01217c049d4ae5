package fragment

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

// TestCoverHasWholeGrains: what covers any ranges, in any order and overlapping, has all bytes of their
// grains, the ranges in their own memory, and no grain of which nothing was asked for. The checksums of
// the requests combine to those of the grains, over any stripes.
func TestCoverHasWholeGrains(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		grain := uint64(rapid.SampledFrom([]int{1, 64, 100, 4096}).Draw(t, "grain"))
		size := rapid.Uint64Range(1, 10*grain).Draw(t, "size")
		value := make([]byte, size)
		rng := rand.New(rand.NewPCG(size, grain))
		for i := range value {
			value[i] = byte(rng.Uint32())
		}
		var fs []store.Fragment
		asked := map[uint64]bool{}
		for range rapid.IntRange(1, 6).Draw(t, "ranges") {
			lo := rapid.Uint64Range(0, size-1).Draw(t, "from")
			hi := rapid.Uint64Range(lo+1, size).Draw(t, "to")
			if n := len(fs); n > 0 && rapid.Bool().Draw(t, "behind") { // adjacent, or in the same grain
				lo = min(fs[n-1].Offset+uint64(len(fs[n-1].Mem))+uint64(rapid.IntRange(0, 3).Draw(t, "gap")), size-1)
				hi = min(lo+hi, size)
			}
			fs = append(fs, store.Fragment{Offset: lo, Mem: make([]byte, hi-lo)})
			for g := lo / grain; g <= (hi-1)/grain; g++ {
				asked[g] = true
			}
		}
		gaps := 0
		parts := Cover(nil, fs, grain, size, func(n int) []byte { gaps += n; return make([]byte, n) })
		own := 0
		for _, p := range parts {
			copy(p.Mem, value[p.Offset:])
			for g := p.Offset / grain; g <= (p.Offset+uint64(len(p.Mem))-1)/grain; g++ {
				require.True(t, asked[g], "nothing of grain %d was asked for", g)
			}
			if own < len(fs) && &p.Mem[0] == &fs[own].Mem[0] {
				own++
			}
		}
		require.Equal(t, len(fs), own, "the ranges themselves, in their order")
		require.LessOrEqual(t, gaps, 2*len(fs)*int(grain))

		r := &model.Replica{Part: model.Part{Size: size}}
		if cut := rapid.Uint64Range(0, size-1).Draw(t, "stripe"); cut > 0 {
			r.Size = cut
			r.More = []model.Part{{Address: 1 << 40, Size: size - cut}}
		}
		var all Grains
		reqs := all.Requests(nil, transport.Read, parts, r, time.Time{}, Layout{Grain: grain}, true)
		l := Layout{Grain: grain}
		for i := range parts {
			l.Next(&parts[i])
		}
		got := all.Take(l.N)
		for i := range reqs {
			all.Need(i, reqs[i].Local)
		}
		all.Compute()
		for i := range reqs {
			require.Equal(t, all.Of[i].Sums, reqs[i].Grains.Sums)
			all.Of[i].FoldAsLaid(got, len(reqs[i].Local), size)
		}
		l = Layout{Grain: grain}
		for i := range parts {
			at := l.Next(&parts[i])
			for g := parts[i].Offset / grain; g*grain < parts[i].Offset+uint64(len(parts[i].Mem)); g++ {
				require.Equal(t, crc32c.Sum(value[g*grain:min((g+1)*grain, size)]), got[at], "grain %d", g)
				at++
			}
		}
	})
}

// TestGrainsOfAValue: the checksums of all ranges of a value, in any order, fold to those of its grains,
// computed on one core or several.
func TestGrainsOfAValue(t *testing.T) {
	for _, size := range []uint64{1, 64 << 10, 64<<10 + 1, 1_000_003, 9<<20 + 5} {
		value := make([]byte, size)
		for i := range value {
			value[i] = byte(i * i >> 5)
		}
		grain, n := GrainOf(size)
		var g Grains
		fs := []store.Fragment{{Mem: value[:size/3]}, {Offset: size / 3, Mem: value[size/3:]}}
		if size < 3 {
			fs = fs[1:]
		}
		r := &model.Replica{Part: model.Part{Size: size}}
		reqs := g.Requests(nil, transport.Write, fs, r, time.Time{}, Layout{Grain: grain}, false)
		got := g.Take(n)
		for i := range reqs {
			require.Nil(t, reqs[i].Grains.Sums, "not asked for")
			g.Need(i, reqs[i].Local)
		}
		g.Compute()
		for i := len(reqs) - 1; i >= 0; i-- {
			g.Of[i].Fold(got, 0, len(reqs[i].Local), size)
		}
		want := make([]uint32, n)
		crc32c.SumGrains(want, value, 0, int(grain))
		require.Equal(t, want, got)
		require.Equal(t, crc32c.Sum(value), Combine(got, size))
	}
}
