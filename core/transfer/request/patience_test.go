package request

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPatience grows with the bytes, and does not overflow.
func TestPatience(t *testing.T) {
	require.Equal(t, leastTime, Patience(0))
	require.Equal(t, leastTime+128*time.Second, Patience(1<<20))
	require.Equal(t, leastTime+longest, Patience(1<<64-1))
}
