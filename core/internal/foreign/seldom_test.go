package foreign

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestOneLineAMinute for each kind, and there are never more kinds than are remembered.
func TestOneLineAMinute(t *testing.T) {
	type kind struct{ function, code int }
	synctest.Test(t, func(t *testing.T) {
		var s Seldom[kind]
		for i := range 3 {
			_, due := s.Count(kind{1, 300}, time.Now())
			require.Equal(t, i == 0, due)
		}
		time.Sleep(quiet)
		more, due := s.Count(kind{1, 300}, time.Now())
		require.True(t, due)
		require.Equal(t, 2, more)
		for i := range 2 * maxKinds {
			s.Count(kind{i, 301}, time.Now())
		}
		require.Len(t, s.seen, maxKinds)
		time.Sleep(quiet)
		_, due = s.Count(kind{1, 302}, time.Now())
		require.True(t, due)
		require.Len(t, s.seen, 1)
	})
}
