package file

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestTable compares a table, whose records come in about the order of their sequences, with a map.
func TestTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x table
		want := map[uint64]uint64{} // addresses by sequences
		sequences := rapid.SliceOfDistinct(rapid.Uint64Range(1, 5000), rapid.ID[uint64]).Draw(t, "sequences")
		for _, seq := range sequences {
			x.add(entry{addr: seq * 3, seq: seq, size: seq, key: "k"})
			want[seq] = seq * 3
			if rapid.IntRange(0, 2).Draw(t, "remove") == 0 {
				e := x.find(seq * 3)
				x.remove(e)
				x.release(e)
				delete(want, seq)
			}
		}
		last, used := uint64(math.MaxUint64), uint64(0)
		got := map[uint64]uint64{}
		x.below(math.MaxUint64, func(e *entry) bool {
			require.Less(t, e.seq, last, "the highest first")
			last = e.seq
			got[e.seq] = e.addr
			used += e.units() * 4096
			return true
		})
		require.Equal(t, want, got)
		require.Equal(t, used, x.used)
		require.Len(t, x.all(), len(want))
	})
}
