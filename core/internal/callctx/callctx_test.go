package callctx

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var errOwn = errors.New("given up")

type name struct{}

// TestItIsAContextLikeAnyOther: derived contexts, whether Done was called before the end or not,
// end with the caller and with the call, and have the cause.
func TestItIsAContextLikeAnyOther(t *testing.T) {
	for _, asked := range []bool{true, false} {
		parent, leave := context.WithCancelCause(context.WithValue(t.Context(), name{}, "x"))
		var own, theirs Call
		own.Begin(parent)
		theirs.Begin(parent)
		if asked {
			require.NotNil(t, own.Done())
			require.NotNil(t, theirs.Done())
		}
		assert.Equal(t, "x", own.Value(name{}))
		require.NoError(t, own.Err())
		own.End(errOwn)
		own.End(errors.New("too late"))
		require.ErrorIs(t, own.Err(), context.Canceled)
		require.ErrorIs(t, own.Cause(), errOwn)
		derived, cancel := context.WithCancel(&own)
		<-derived.Done()
		require.ErrorIs(t, context.Cause(derived), errOwn)
		cancel()
		require.NoError(t, theirs.Err())

		leave(errors.New("left"))
		require.ErrorIs(t, theirs.Err(), context.Canceled)
		<-theirs.Done()
		require.EqualError(t, context.Cause(&theirs), "left")
		require.NoError(t, theirs.Cause())
		require.False(t, own.Finish())
	}
}

// TestTheNextCallKnowsNothingOfTheLast: it makes no difference whether the waiter of the last call
// took its end or was too late for it.
func TestTheNextCallKnowsNothingOfTheLast(t *testing.T) {
	for _, took := range []bool{true, false} {
		var c Call
		c.Begin(t.Context())
		_, own := c.Ends()
		c.End(errOwn)
		if took {
			<-own
		}
		require.True(t, c.Finish())
		c.Begin(context.Background())
		caller, own := c.Ends()
		require.Nil(t, caller)
		select {
		case <-own:
			t.Error("the end of another call")
		default:
		}
		require.NoError(t, c.Cause())
		require.NoError(t, c.Err())
		require.True(t, c.Finish())
	}
}

// TestDetached: a detached call ends at its limit, not with its caller.
func TestDetached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, leave := context.WithCancel(context.WithValue(t.Context(), name{}, "x"))
		leave()
		var c, waited Call
		for _, c := range []*Call{&c, &waited} {
			c.BeginDetached(parent, time.Now().Add(time.Second))
		}
		caller, _ := c.Ends()
		require.Nil(t, caller)
		require.NoError(t, c.Err())
		limit, ok := c.Deadline()
		require.True(t, ok)
		require.Equal(t, time.Second, time.Until(limit))
		done := waited.Done()
		time.Sleep(time.Second)
		<-done
		require.ErrorIs(t, waited.Err(), context.DeadlineExceeded)
		require.ErrorIs(t, c.Err(), context.DeadlineExceeded)
		require.True(t, c.Finish())
		require.False(t, waited.Finish())
		var d Call
		d.BeginDetached(parent, time.Now().Add(time.Second))
		require.Equal(t, "x", d.Value(name{}))
		require.False(t, d.Finish())
	})
}

func TestNoGarbage(t *testing.T) {
	var c Call
	ctx := t.Context()
	c.Begin(ctx)
	c.Finish()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		c.Begin(ctx)
		c.Ends()
		c.End(errOwn)
		c.Finish()
	}))
}
