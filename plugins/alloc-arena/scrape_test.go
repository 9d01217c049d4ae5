package arena

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/alloc"
)

// openRuns counts the runs that have free slots.
func (s *space) openRuns() (n int) {
	for _, c := range s.classes.sets[withOpen] {
		for i := s.classes.all[c].open; i != 0; i = s.runs.at(i).next {
			n++
		}
	}
	return n
}

// combed returns a space that is full of pages but for every other one, of which runs of 64
// are made, and the offsets of the pages.
func combed(t testing.TB, pages int, page, odd uint64) (*space, []uint64) {
	s := newSpace(*DefaultConfig(), alloc.Space{ID: 1, Size: uint64(pages)*page + odd}, 1)
	offs := make([]uint64, pages)
	for i := range offs {
		off, ok := s.alloc(page, 1)
		require.True(t, ok)
		offs[i] = off
	}
	for i := 0; i < pages; i += 2 {
		require.True(t, s.free(offs[i], page))
	}
	return s, offs
}

// TestImpossibleSheds: what is larger than all that is free is refused with every run as it
// was. What is not is looked for in them.
func TestImpossibleSheds(t *testing.T) {
	const pages, page, odd = 4096, 64 << 10, 16
	s, _ := combed(t, pages, page, odd)
	const free = pages/2*page + odd
	open, runs := s.openRuns(), s.runs.byFrame.Len()
	require.GreaterOrEqual(t, open, 32, "there are runs to give up")
	for _, size := range []uint64{
		free + 1,       // Its slot is larger than what is free.
		pages*page + 1, // Within the space, and its slot is not.
	} {
		_, ok := s.alloc(size, 1)
		require.False(t, ok)
		require.Equal(t, open, s.openRuns(), "%d bytes of %d that are free", size, uint64(free))
		require.Equal(t, runs, s.runs.byFrame.Len())
	}
	_, ok := s.alloc(page+1, 1)
	require.False(t, ok)
	require.Less(t, s.openRuns(), open, "what could have fitted was looked for")
	verify(t, s)
}
