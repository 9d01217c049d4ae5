package arena

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestSizes compares with a map, for sizes that are near each other and far apart.
func TestSizes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s, want := newSizes(1), map[uint64]uint32{}
		draw := func() uint64 {
			return max(1, min(maxSpace, rapid.Uint64Range(1, 255).Draw(rt, "high")<<rapid.IntRange(0, 60).Draw(rt, "shift")+rapid.Uint64Range(0, 9).Draw(rt, "low")))
		}
		for i := range uint32(rapid.IntRange(1, 200).Draw(rt, "steps")) {
			size := draw()
			if want[size] != 0 {
				require.Equal(rt, want[size], *s.first(size))
				s.remove(size)
				delete(want, size)
			} else {
				*s.first(size), want[size] = i+1, i+1
			}
			ask, least, most := draw(), uint64(0), uint64(0)
			for size := range want {
				if most = max(most, size); size >= ask && (least == 0 || size < least) {
					least = size
				}
			}
			at := s.ceil(ask)
			require.Equal(rt, least, s.nodes[at].key)
			require.Equal(rt, want[least], s.nodes[at].value)
			require.Equal(rt, most, s.largest())
			require.Equal(rt, want[ask] != 0, s.find(ask) != 0)
		}
	})
}
