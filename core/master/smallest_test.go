package master

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/model"
)

// A key that a walk meets twice is listed once, and takes no place of another.
func TestTheSmallestKeysEachOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfN(rapid.StringMatching(`[a-e]{1,2}`), 0, 60).Draw(t, "keys")
		s := smallest{limit: rapid.IntRange(1, 10).Draw(t, "limit"), have: map[model.Key]struct{}{}}
		for _, k := range keys {
			if s.wants(k) {
				s.offer(k)
			}
		}
		want := slices.Compact(slices.Sorted(slices.Values(keys)))
		want = want[:min(len(want), s.limit)]
		require.ElementsMatch(t, want, s.keys)
		require.Len(t, s.have, len(want), "it remembers no other")
	})
}
