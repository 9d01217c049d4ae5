package landing

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Set
		require.False(t, s.Has("a"))
		s.Wait(t.Context(), "a")
		s.Begin([]string{"a", "b"})
		s.Begin([]string{"a"})
		require.True(t, s.Has("a") && s.Has("b"))
		require.False(t, s.Has("c"))
		waited := false
		go func() {
			s.Wait(t.Context(), "a")
			waited = true
		}()
		s.End([]string{"a", "b"})
		synctest.Wait()
		require.True(t, s.Has("a"))
		require.False(t, waited || s.Has("b"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s.Wait(ctx, "a")
		require.Error(t, ctx.Err())
		s.End([]string{"a"})
		synctest.Wait()
		require.True(t, waited)
		require.False(t, s.Has("a"))
		require.Zero(t, s.count.Load())
	})
}
