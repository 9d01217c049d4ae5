package extent_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/extent"
)

// TestModel compares a space with a list of its units.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const units = 300
		var s extent.Space
		var used [units]bool
		s.Free(0, 100)
		s.Free(101, units-101) // unit 100 is a gap
		used[100] = true
		type held struct{ at, n uint64 }
		var all []held
		runs := func() (free, largest uint64) {
			run := uint64(0)
			for _, u := range used {
				if u {
					run = 0
					continue
				}
				run, free = run+1, free+1
				largest = max(largest, run)
			}
			return free, largest
		}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			if len(all) > 0 && rapid.Bool().Draw(t, "free") {
				i := rapid.IntRange(0, len(all)-1).Draw(t, "which")
				h := all[i]
				all = append(all[:i], all[i+1:]...)
				s.Free(h.at, h.n)
				for u := h.at; u < h.at+h.n; u++ {
					used[u] = false
				}
			} else {
				n := uint64(rapid.IntRange(1, 120).Draw(t, "n"))
				_, largest := runs()
				at, ok := s.Alloc(n)
				require.Equal(t, n <= largest, ok, "%d units where %d are free together", n, largest)
				if ok {
					for u := at; u < at+n; u++ {
						require.False(t, used[u], "unit %d was given out twice", u)
						used[u] = true
					}
					all = append(all, held{at, n})
				}
			}
			free, largest := runs()
			require.Equal(t, free, s.Unused())
			require.Equal(t, largest, s.Largest())
		}
	})
}

// TestBestFit: a hole of the right size is taken before a larger one is cut.
func TestBestFit(t *testing.T) {
	var s extent.Space
	s.Free(0, 1000)
	s.Free(2000, 257)
	s.Free(5000, 260)
	s.Free(3000, 259)
	s.Free(7000, 261)
	at, ok := s.Alloc(257)
	require.True(t, ok)
	require.EqualValues(t, 2000, at)
	at, ok = s.Alloc(258)
	require.True(t, ok)
	require.EqualValues(t, 3000, at)
	_, ok = s.Alloc(0)
	require.False(t, ok)
}

// TestPagesFillASpace: records of one size leave nothing over after any churn.
func TestPagesFillASpace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := uint64(rapid.IntRange(1, 300).Draw(t, "units"))
		var s extent.Space
		s.Free(0, 50*n)
		var all []uint64
		for range 4 {
			for {
				at, ok := s.Alloc(n)
				if !ok {
					break
				}
				all = append(all, at)
			}
			require.Len(t, all, 50)
			all = rapid.Permutation(all).Draw(t, "order")
			for _, at := range all[20:] {
				s.Free(at, n)
			}
			all = all[:20]
		}
	})
}
