package workloads

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/builtin"
	"github.com/mooncake-go/mooncake/sdk/alloc"
)

// newAllocator is the first that is linked in.
func newAllocator(t *testing.T) alloc.Allocator {
	t.Helper()
	for _, f := range builtin.Plugins() {
		if f, ok := f.(alloc.Factory); ok {
			a, err := f.New(f.DefaultConfig())
			require.NoError(t, err)
			return a
		}
	}
	t.Fatal("no allocator is linked in")
	return nil
}

func TestUtilisationIsWhatWasAskedFor(t *testing.T) {
	const size, fit = 1 << 20, 600
	a := newAllocator(t)
	// Half a page more: nothing fits there.
	v, err := measureAlloc(t.Context(), a, sizes{next: func(*rand.Rand) uint64 { return size }}, fit*size+size/2)
	require.NoError(t, err)
	require.InDelta(t, fit/(fit+0.5), v["utilisation"], 1e-9)
	require.Positive(t, v["allocate"])
	require.Positive(t, v["free"])
	stats, err := a.Stats(t.Context(), allocSpace)
	require.NoError(t, err)
	require.Zero(t, stats.Extents, "all was given back")
}

func TestChurnReplacesTheContent(t *testing.T) {
	given := 0
	s := sizes{churn: true, next: func(*rand.Rand) uint64 { given++; return 1 << 20 }}
	v, err := measureAlloc(t.Context(), newAllocator(t), s, 1000<<20)
	require.NoError(t, err)
	require.InDelta(t, 1, v["utilisation"], 1e-9)
	require.Greater(t, given, (2+churned)*1000, "filled twice, and replaced")
}

func TestAllocSizes(t *testing.T) {
	names, quoted := map[string]bool{}, 0
	for _, s := range allocSizes() {
		require.False(t, names[s.name], s.name)
		names[s.name] = true
		require.Positive(t, s.next(rand.New(rand.NewPCG(1, 1))))
		if s.quoted > 0 {
			quoted++
		}
	}
	require.Equal(t, 2, quoted)
	require.Contains(t, names, "uniform 1 MiB+17")
}
