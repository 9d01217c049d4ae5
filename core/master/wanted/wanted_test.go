package wanted

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master/lease"
)

func TestSet(t *testing.T) {
	var s Set
	now := lease.Instant(1)
	require.True(t, s.Add("a", now))
	require.False(t, s.Add("a", now.Add(duration-1)))
	require.True(t, s.Add("a", now.Add(duration)))
	for i := range most - 1 {
		require.True(t, s.Add(fmt.Sprint(i), now.Add(duration)))
	}
	require.False(t, s.Add("b", now.Add(2*duration-1)), "there is no room")
	require.True(t, s.Add("b", now.Add(2*duration)), "the others are forgotten")
	require.Len(t, s.until, 1)
}
