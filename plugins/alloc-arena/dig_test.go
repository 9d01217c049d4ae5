package arena

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/alloc"
)

// verifyReach checks that each contiguous free range that includes free slots of runs is
// remembered: one of those runs has a reach for all of it, and so have the levels above.
func verifyReach(t require.TestingT, s *space) {
	length, reach, inRuns := uint64(0), uint32(0), false
	end := func() {
		if inRuns && reach < s.reach(length) {
			require.Fail(t, "a free range is forgotten", "%d bytes, remembered as %d", length, reach)
		}
		length, reach, inRuns = 0, 0, false
	}
	r := &s.ranges
	for i := r.nodes.at(0).next; i != 0; i = r.nodes.at(i).next {
		switch n := r.nodes.at(i); n.kind() {
		case hole:
			length += r.nodes.size(n)
		case row:
			u := s.runs.at(n.a)
			for j := range u.slots {
				if u.free>>j&1 == 0 {
					end()
					continue
				}
				length, reach, inRuns = length+u.slot, max(reach, s.runs.reach[0][n.a]), true
			}
		default:
			end()
		}
	}
	end()
	for level := range len(s.runs.reach) - 1 {
		for i, reach := range s.runs.reach[level] {
			if s.runs.reach[level+1][i>>reachBits] < reach {
				require.Fail(t, "a reach is hidden", "%d of level %d", i, level)
			}
		}
	}
}

// toBeLookedAt counts the runs that a request would look at, and the entries of the levels
// above.
func (s *space) toBeLookedAt(size uint64) (n int) {
	for level := range s.runs.reach {
		for _, reach := range s.runs.reach[level] {
			if reach >= s.reach(s.granules.slot(size)) {
				n++
			}
		}
	}
	return n
}

// TestFewRunsAtOnce: one request gives up a few runs at most, however many are open and
// whatever becomes of it, and what it looked at for nothing is not looked at again.
func TestFewRunsAtOnce(t *testing.T) {
	const pages, page = 64 << 10, 64 << 10
	s, offs := combed(t, pages, page, 0)
	require.Greater(t, s.openRuns(), 900)
	alloc := func(size uint64) bool {
		before := s.openRuns()
		_, ok := s.alloc(size, 1)
		assert.LessOrEqual(t, before-s.openRuns(), atOnce+2)
		return ok
	}
	require.False(t, alloc(2*page))
	require.Zero(t, s.toBeLookedAt(2*page))
	require.False(t, alloc(page+1))
	require.Zero(t, s.toBeLookedAt(page+1))
	require.Greater(t, s.openRuns(), 900)
	verify(t, s)

	half := pages/2 + 1
	require.True(t, s.free(offs[half], page))
	require.Equal(t, len(s.runs.reach), s.toBeLookedAt(2*page), "the one run that something was freed in")
	require.True(t, alloc(2*page), "three free pages are adjacent")

	for i := half + 256; i < half+256+128; i += 2 {
		require.True(t, s.free(offs[i], page))
	}
	require.Greater(t, s.ranges.bySize.largest(), uint64(16*page), "a free range, larger than asked for")
	require.True(t, alloc(2*page))
	require.Greater(t, s.openRuns(), 900)
	verify(t, s)
}

// TestRangeOfNeighbours: a request gets a range that consists of free slots of a run, free slots of
// the next one and a free range between them, in whatever order they became free.
func TestRangeOfNeighbours(t *testing.T) {
	const page, perArena = 64 << 10, 64 + 64 + 3 // Two runs and three pages of their own.
	for name, c := range map[string]struct {
		free  []int // pages of an arena, in this order
		until int   // how many of them are free when nothing fits yet
		at    int
	}{
		"two runs":            {[]int{63, 64}, 1, 63},
		"two runs, backwards": {[]int{64, 63}, 1, 63},
		"run and range":       {[]int{127, 128, 129, 130}, 1, 127},
		"range and run":       {[]int{131, 130, 129, 128}, 1, 128},
		"range and run last":  {[]int{128, 129, 130, 131}, 3, 128},
		"run, range and run":  {[]int{127, 131, 128, 129, 130}, 2, 127},
		"range, run, run":     {[]int{129, 128, 130, 127, 131}, 4, 127},
		"in a run":            {[]int{20, 21, 22}, 2, 20},
		"in a run, backwards": {[]int{22, 20, 21}, 1, 20},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSpace(Config{ArenaBytes: perArena * page}, alloc.Space{ID: 1, Size: 20 * perArena * page}, 1)
			for ok := true; ok; {
				_, ok = s.alloc(page, 1)
			}
			begin, others := someArena(t, s)
			free := func(off uint64) { require.True(t, s.free(off, page)) }
			size := uint64(len(c.free)) * page
			ask := func() (uint64, bool) {
				for range 2 * atOnce { // Runs that are given up before.
					free(others[0] + 5*page)
					others = others[1:]
				}
				return s.alloc(size, 1)
			}
			for n, at := range c.free {
				if n == c.until {
					_, ok := ask()
					require.False(t, ok)
					require.Zero(t, s.toBeLookedAt(size))
				}
				free(begin + uint64(at)*page)
			}
			off, ok := ask()
			require.True(t, ok)
			require.Equal(t, begin+uint64(c.at)*page, off)
			verify(t, s)
		})
	}
}

// TestAlignedRange: the allocator skips a run whose free slots form no aligned range.
func TestAlignedRange(t *testing.T) {
	const pages, page = 4096, 64 << 10
	s := newSpace(*DefaultConfig(), alloc.Space{ID: 1, Size: pages * page}, 1)
	for range pages {
		_, ok := s.alloc(page, 1)
		require.True(t, ok)
	}
	free := func(at uint64) { require.True(t, s.free(at*page, page)) }
	const odd, even = 1024 + 1, 2048 + 2
	for _, at := range []uint64{odd, odd + 1, even, even + 1} {
		free(at)
	}
	require.NotZero(t, s.runs.find(page, even*page))
	for i := range uint64(2 * atOnce) { // Runs that are given up before.
		free(3072 + 64*i)
	}
	off, ok := s.alloc(2*page, 2*page)
	require.True(t, ok)
	require.EqualValues(t, even*page, off)
	require.NotZero(t, s.runs.find(page, (odd+2)*page), "the other run is as it was")
	verify(t, s)
}

// someArena returns where two runs begin, of 64 slots, that three extents and another run
// follow, and where the other runs do.
func someArena(t *testing.T, s *space) (begin uint64, others []uint64) {
	ns, found := &s.ranges.nodes, false
	for i := ns.at(0).next; i != 0; i = ns.at(i).next {
		at, like := i, 0
		for _, k := range []kind{row, row, live, live, live, row} {
			n := ns.at(at)
			if n.kind() != k || k == row && s.runs.at(n.a).slots != maxRun {
				break
			}
			like, at = like+1, n.next
		}
		if like == 6 && !found {
			begin, found = ns.at(i).off(), true
			i = ns.at(at).prev
		} else if ns.at(i).kind() == row {
			others = append(others, ns.at(i).off())
		}
	}
	require.True(t, found)
	return begin, others
}
