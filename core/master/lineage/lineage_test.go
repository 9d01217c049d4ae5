package lineage

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/sdk/evict"
)

func TestTakeReturnsWhatWasNotedOnce(t *testing.T) {
	table := New(4)
	table.Note(7, 70)
	require.Equal(t, evict.ID(70), table.Take(7))
	require.Zero(t, table.Take(7), "it was taken")
	require.Zero(t, table.Take(8), "it was never noted")
	table.Note(9, 0)
	require.Zero(t, table.Take(9), "no parent is nothing to remember")
}

func TestALaterKeyTakesTheSlot(t *testing.T) {
	table := New(4)
	table.Note(1, 10)
	table.Note(5, 50)
	require.Zero(t, table.Take(1))
	require.Equal(t, evict.ID(50), table.Take(5))
}

func TestLearnNotesTheFirstAbsentKeyAfterAPresentOne(t *testing.T) {
	table := New(64)
	table.Learn([]uint64{1, 2, 3, 4, 5, 6}, []evict.ID{0, 20, 0, 0, 50, 0})
	for child, parent := range map[uint64]evict.ID{1: 0, 2: 0, 3: 20, 4: 0, 5: 0, 6: 50} {
		require.Equal(t, parent, table.Take(child), "key %d", child)
	}
	table.Learn([]uint64{1, 2, 3}, []evict.ID{10})
	require.Zero(t, table.Take(2), "what is not said to be absent is not noted")
}

func TestANilTableIsOff(t *testing.T) {
	table := New(0)
	require.Nil(t, table)
	table.Note(1, 10)
	table.Learn([]uint64{1, 2}, []evict.ID{10, 0})
	require.Zero(t, table.Take(2))
}

func TestNothingIsAllocated(t *testing.T) {
	table := New(1 << 10)
	fingerprints, present := []uint64{1, 2, 3}, []evict.ID{10, 0, 30}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		table.Learn(fingerprints, present)
		table.Take(2)
	}))
}

func TestItNeverInventsAParent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := New(rapid.IntRange(1, 8).Draw(t, "entries"))
		last := map[uint64]evict.ID{}
		t.Repeat(map[string]func(*rapid.T){
			"note": func(t *rapid.T) {
				child, parent := rapid.Uint64Range(1, 20).Draw(t, "child"), evict.ID(rapid.Uint64Range(1, 1<<40).Draw(t, "parent"))
				table.Note(child, parent)
				last[child] = parent
			},
			"take": func(t *rapid.T) {
				child := rapid.Uint64Range(1, 20).Draw(t, "child")
				if got := table.Take(child); got != 0 {
					require.Equal(t, last[child], got)
					delete(last, child)
				}
			},
		})
	})
}

// Writers and takers meet in one slot: whatever is taken belongs to the key asked for.
func TestRacingWritersNeverMixPairs(t *testing.T) {
	table := New(1)
	parentOf := func(child uint64) evict.ID { return evict.ID(child*1_000_003 + 17) }
	var wg sync.WaitGroup
	wrong := make([]int, 4)
	for w := range wrong {
		wg.Go(func() {
			for i := range 20_000 {
				child := uint64(1 + (i+w)%5)
				table.Note(child, parentOf(child))
				child = uint64(1 + (i*7+w)%5)
				if got := table.Take(child); got != 0 && got != parentOf(child) {
					wrong[w]++
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, []int{0, 0, 0, 0}, wrong)
}

func BenchmarkNoteTake(b *testing.B) {
	table := New(DefaultEntries)
	b.ReportAllocs()
	for i := range b.N {
		child := uint64(i)*0x9e3779b97f4a7c15 + 1
		table.Note(child, evict.ID(i+1))
		table.Take(child)
	}
}
