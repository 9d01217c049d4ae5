package put

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSumsOfFewBytesAreComputedAtOnce gates the goroutines that a put starts: none for the checksum of a small value.
func TestSumsOfFewBytesAreComputedAtOnce(t *testing.T) {
	for bytes, atOnce := range map[uint64]bool{1: true, 64 << 10: true, sumAtOnce: true, sumAtOnce + 1: false} {
		var c Call
		var computed bool
		after := make(chan struct{})
		c.inBackground(bytes, func() {
			defer c.computing.Done()
			if !atOnce {
				<-after
			}
			computed = true
		})
		if atOnce {
			require.True(t, computed, "%d bytes", bytes)
		}
		close(after)
		c.computing.Wait()
		require.True(t, computed, "%d bytes", bytes)
	}
}
