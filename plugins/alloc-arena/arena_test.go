package arena_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	arena "github.com/mooncake-go/mooncake/plugins/alloc-arena"
	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/alloc/alloctest"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) { alloctest.Run(t, arena.Factory()) }

func TestConformanceThroughTheWire(t *testing.T) {
	alloctest.Run(t, alloctest.ThroughWire(t, arena.Factory()))
}

func newSpace(t *testing.T, cfg *arena.Config, size uint64) alloc.Allocator {
	t.Helper()
	a, err := arena.Factory().New(cfg)
	require.NoError(t, err)
	require.NoError(t, a.AddSpace(t.Context(), alloc.Space{ID: 1, Size: size}))
	return a
}

// allocate asks for n extents and returns those that it got.
func allocate(t *testing.T, a alloc.Allocator, size uint64, n int) []alloc.Extent {
	t.Helper()
	requests := make([]alloc.Request, n)
	for i := range requests {
		requests[i] = alloc.Request{Size: size, Candidates: []alloc.SpaceID{1}}
	}
	results, err := a.Alloc(context.Background(), requests)
	require.NoError(t, err)
	var got []alloc.Extent
	for _, r := range results {
		if r.Err == nil {
			got = append(got, r.Extent)
		}
	}
	return got
}

func free(t *testing.T, a alloc.Allocator, extents []alloc.Extent) {
	t.Helper()
	bad, err := a.Free(context.Background(), extents)
	require.NoError(t, err)
	require.Nil(t, bad)
}

// TestPagesFillASpace: hit ratios are computed from capacity by page size, so not a page
// may be missing, at first and after any amount of churn.
func TestPagesFillASpace(t *testing.T) {
	const pages = 1000
	for _, page := range []uint64{64, 4 << 10, 643_072, 1 << 20, 3_120_000, 40 << 20, 100 << 20} {
		a := newSpace(t, arena.DefaultConfig(), pages*page)
		got := allocate(t, a, page, pages+1)
		require.Len(t, got, pages, "pages of %d bytes", page)
		rng := rand.New(rand.NewPCG(page, 1))
		for range 20 {
			rng.Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
			n := 1 + rng.IntN(pages)
			free(t, a, got[:n])
			got = append(allocate(t, a, page, n+1), got[n:]...)
			require.Len(t, got, pages, "pages of %d bytes after churn", page)
		}
		free(t, a, got)
		st, err := a.Stats(t.Context(), 1)
		require.NoError(t, err)
		assert.Equal(t, alloc.Stats{Size: pages * page, LargestFree: pages * page}, st, "an empty space is one free range")
	}
}

// TestUtilisation gates the densities that the README gives, with some margin. The loads are drawn
// from a fixed seed.
func TestUtilisation(t *testing.T) {
	floor := map[string]float64{
		"pair,random": 0.97, "pair,oldest": 0.97, "uniform8M,random": 0.93, "uniform8M,oldest": 0.95, "uniform64K,random": 0.97,
	}
	for _, l := range alloctest.Loads() {
		t.Run(l.Name, func(t *testing.T) {
			got := alloctest.Utilisation(t, arena.Factory(), l, l.Space/64, 3)
			t.Logf("utilisation %.4f", got)
			assert.Greater(t, got, floor[l.Name])
		})
	}
}

// TestSizesShift: pages of one size give way to another, in random order. What was set
// aside for the old size is not lost to the new one.
func TestSizesShift(t *testing.T) {
	const space = 1 << 30
	for _, sizes := range [][2]uint64{{3_120_000, 643_000}, {643_000, 3_120_000}, {1 << 20, 4 << 20}} {
		a := newSpace(t, arena.DefaultConfig(), space)
		old := allocate(t, a, sizes[0], space/int(sizes[0])+1)
		rng := rand.New(rand.NewPCG(5, sizes[0]))
		rng.Shuffle(len(old), func(i, j int) { old[i], old[j] = old[j], old[i] })
		free(t, a, old[:len(old)*3/4])
		got := uint64(len(allocate(t, a, sizes[1], space/int(sizes[1]))))
		freed := uint64(len(old)*3/4) * sizes[0]
		assert.Greater(t, got*sizes[1], freed/2, "%d then %d: half of what was freed serves the new size", sizes[0], sizes[1])
		free(t, a, old[len(old)*3/4:])
		got += uint64(len(allocate(t, a, sizes[1], space/int(sizes[1]))))
		assert.Greater(t, float64(got*sizes[1]), 0.85*space, "%d then %d: the rest serves it as well, but for gaps between pages", sizes[0], sizes[1])
	}
}

// TestAnEmptySpaceIsWhole: nothing is left of the arenas of sizes that are gone.
func TestAnEmptySpaceIsWhole(t *testing.T) {
	a := newSpace(t, arena.DefaultConfig(), 1<<30)
	var got []alloc.Extent
	for _, size := range []uint64{100, 643_000, 1 << 20, 3_120_000} {
		got = append(got, allocate(t, a, size, 50)...)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	rng.Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
	free(t, a, got)
	st, err := a.Stats(t.Context(), 1)
	require.NoError(t, err)
	assert.Equal(t, alloc.Stats{Size: 1 << 30, LargestFree: 1 << 30}, st)
}

func TestWasteIsLessThanAGranule(t *testing.T) {
	for _, granule := range []uint64{1, 64, 4096, 65536} {
		a := newSpace(t, &arena.Config{ArenaBytes: 1 << 20, GranuleBytes: granule}, 64<<20)
		for _, size := range []uint64{1, granule, granule + 1, 643_000, 3_120_000} {
			got := allocate(t, a, size, 1)
			require.Len(t, got, 1)
			assert.Zero(t, got[0].Offset%granule)
			st, err := a.Stats(t.Context(), 1)
			require.NoError(t, err)
			assert.Less(t, st.Reserved-st.Requested, granule)
			free(t, a, got)
		}
	}
}

func TestReserveWithAnotherGranule(t *testing.T) {
	fine := newSpace(t, &arena.Config{ArenaBytes: 1 << 20, GranuleBytes: 64}, 1<<20)
	coarse := newSpace(t, &arena.Config{ArenaBytes: 1 << 20, GranuleBytes: 4096}, 1<<20)
	got := allocate(t, fine, 100, 3)
	bad, err := coarse.Reserve(t.Context(), got[1:2])
	require.NoError(t, err)
	require.Len(t, bad, 1)
	assert.True(t, errs.Is(bad[0], errs.NoAvailableHandle))
	assert.ErrorContains(t, bad[0], "check granule_bytes")
}

func TestConfig(t *testing.T) {
	for _, c := range []struct {
		cfg  arena.Config
		want string
	}{
		{arena.Config{ArenaBytes: 0, GranuleBytes: 64}, "arena_bytes is 0"},
		{arena.Config{ArenaBytes: 4095, GranuleBytes: 64}, "arena_bytes is 4095"},
		{arena.Config{ArenaBytes: 1<<40 + 1, GranuleBytes: 64}, "arena_bytes"},
		{arena.Config{ArenaBytes: 1 << 20, GranuleBytes: 3}, "granule_bytes is 3"},
		{arena.Config{ArenaBytes: 1 << 20, GranuleBytes: 65}, "granule_bytes is 65"},
		{arena.Config{ArenaBytes: 1 << 20, GranuleBytes: 1 << 17}, "granule_bytes is 131072"},
	} {
		assert.ErrorContains(t, plugin.Validate(&c.cfg), c.want)
		_, err := arena.Factory().New(&c.cfg)
		assert.ErrorContains(t, err, c.want)
	}
}

func BenchmarkArena(b *testing.B) { alloctest.Bench(b, arena.Factory()) }

// TestUniformUtilisation gates what one size fills of a space, for sizes at and beside powers
// of two: 0.99 at first and after any amount of churn, rounding up to the granule included.
func TestUniformUtilisation(t *testing.T) {
	for power := 12; power <= 26; power += 2 {
		for _, off := range []int{0, 17, -17} {
			size := uint64(1<<power + off)
			space := max(16<<20, 1024*size)
			a := newSpace(t, arena.DefaultConfig(), space)
			rng := rand.New(rand.NewPCG(size, 1))
			held := allocate(t, a, size, int(space/size)+1)
			for turn := range 5 {
				require.GreaterOrEqual(t, float64(uint64(len(held))*size)/float64(space), 0.99, "%d bytes, turn %d", size, turn)
				rng.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
				half := len(held) / 2
				free(t, a, held[:half])
				held = append(held[half:], allocate(t, a, size, half+1)...)
			}
		}
	}
}
