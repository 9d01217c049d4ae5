package get

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
)

func itemOnTier(endpoint string, size int) *Item {
	o := model.Object{Size: uint64(size), Replicas: []model.Replica{{Part: model.Part{Endpoint: endpoint, Protocol: model.ProtocolTier, Size: uint64(size)}}}}
	return &Item{object: o, fragments: []store.Fragment{{Mem: make([]byte, size)}}}
}

// TestWavesAreBounded: a wave has 4 calls and 32 MiB at most, a call 256 reads and 16 MiB, and each call one endpoint. A
// larger item is taken in steps.
func TestWavesAreBounded(t *testing.T) {
	fill := func(size int, endpoint func(i int) string) (w *wave, n int) {
		w = &wave{}
		for all := true; all; n++ {
			it := itemOnTier(endpoint(n), size)
			it.divide()
			w.add(it)
			all = it.steps[len(it.steps)-1].state == stepAsked
		}
		for _, s := range w.calls {
			require.Len(t, s.steps, len(s.reads))
		}
		return w, n - 1
	}
	one := func(int) string { return "a:1" }
	w, n := fill(1, one)
	require.Equal(t, []int{4 * 256, 4}, []int{n, len(w.calls)})
	w, n = fill(3<<20, one)
	require.Equal(t, []int{10, 2}, []int{n, len(w.calls)})
	w, n = fill(9<<20, one)
	require.Equal(t, []int{3, 3}, []int{n, len(w.calls)})
	w, n = fill(100, func(i int) string { return fmt.Sprint("a:", i) })
	require.Equal(t, []int{4, 4}, []int{n, len(w.calls)})
	w, n = fill(33<<20, one)
	require.Equal(t, []int{0, 2}, []int{n, len(w.calls)})
	require.Equal(t, uint64(16<<20), w.calls[1].reads[0].Offset)
}

// TestSteps: the steps of an item have the bytes that it reads, in order, and nothing between them that is as much as a page.
// None crosses a multiple of 16 MiB.
func TestSteps(t *testing.T) {
	type r struct{ lo, hi uint64 }
	const size = 40 << 20
	for name, c := range map[string]struct{ reads, want []r }{
		"a whole object":         {[]r{{0, size}}, []r{{0, 16 << 20}, {16 << 20, 32 << 20}, {32 << 20, size}}},
		"in two buffers":         {[]r{{0, 100}, {100, 16<<20 + 1}}, []r{{0, 16 << 20}, {16 << 20, 16<<20 + 1}}},
		"ranges far apart":       {[]r{{10, 20}, {8192, 8200}, {30 << 20, 30<<20 + 7}}, []r{{10, 20}, {8192, 8200}, {30 << 20, 30<<20 + 7}}},
		"ranges of one page":     {[]r{{10, 20}, {4000, 5000}, {8192, 8200}}, []r{{10, 8200}}},
		"backwards, and twice":   {[]r{{5000, 5100}, {10, 20}, {10, 30}}, []r{{5000, 5100}, {10, 30}}},
		"around a border":        {[]r{{16<<20 - 5, 16<<20 - 1}, {16<<20 + 1, 16<<20 + 2}}, []r{{16<<20 - 5, 16<<20 - 1}, {16<<20 + 1, 16<<20 + 2}}},
		"across several borders": {[]r{{1 << 20, 33 << 20}}, []r{{1 << 20, 16 << 20}, {16 << 20, 32 << 20}, {32 << 20, 33 << 20}}},
	} {
		t.Run(name, func(t *testing.T) {
			it := &Item{object: model.Object{Size: size}}
			for _, x := range c.reads {
				it.fragments = append(it.fragments, store.Fragment{Offset: x.lo, Mem: make([]byte, x.hi-x.lo)})
			}
			it.divide()
			var got, parts []r
			for _, s := range it.steps {
				got = append(got, r{s.lo, s.hi})
				for _, f := range s.parts {
					end := f.Offset + uint64(len(f.Mem))
					require.True(t, s.lo <= f.Offset && end <= s.hi)
					if n := len(parts); n > 0 && parts[n-1].hi == f.Offset {
						parts[n-1].hi = end
					} else {
						parts = append(parts, r{f.Offset, end})
					}
				}
			}
			require.Equal(t, c.want, got)
			whole := []r{}
			for _, x := range c.reads {
				if n := len(whole); n > 0 && whole[n-1].hi == x.lo {
					whole[n-1].hi = x.hi
				} else {
					whole = append(whole, x)
				}
			}
			require.Equal(t, whole, parts)
			require.Equal(t, len(got), it.left)
		})
	}
}
