package leadership_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master/journal"
	"github.com/mooncake-go/mooncake/core/master/leadership"
)

// TestFollowers: a follower is listed until it was silent for a while, and there is a bound.
func TestFollowers(t *testing.T) {
	var f leadership.Followers
	at := func(d time.Duration) journal.Instant { return journal.Instant(time.Hour + d) }
	require.Empty(t, f.List(at(0)))
	require.True(t, f.Add("b:1", at(0)))
	require.True(t, f.Add("a:1", at(4*time.Second)))
	require.Equal(t, []string{"a:1", "b:1"}, f.List(at(5*time.Second)))
	require.Equal(t, []string{"a:1"}, f.List(at(6*time.Second)))
	n := 1
	for f.Add(fmt.Sprint("c", n, ":1"), at(6*time.Second)) {
		n++
	}
	require.Equal(t, 16, n)
	require.True(t, f.Add("a:1", at(6*time.Second)), "one that is known is never too many")
	require.True(t, f.Add("d:1", at(12*time.Second)), "others have gone")
}
