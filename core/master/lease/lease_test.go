package lease

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestClockFollowsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClock()
		start := c.Now()
		require.Positive(t, start)
		time.Sleep(3 * time.Second)
		require.Equal(t, 3*time.Second, c.Now().Sub(start))
	})
}

func TestAddSaturates(t *testing.T) {
	require.Equal(t, Instant(math.MaxInt64), Instant(10).Add(math.MaxInt64))
	require.Equal(t, Instant(15), Instant(10).Add(5))
	require.Equal(t, Instant(5), Instant(10).Add(-5))
}
