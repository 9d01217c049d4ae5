package relay

import (
	"bytes"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// follow uses another generation, without dialling paths ahead of time.
func (r *rig) follow(t *testing.T, h hooks) (old *fake, end *Generation) {
	t.Helper()
	ft := r.net.New(h)
	require.NoError(t, ft.Start(t.Context(), nil))
	gen := r.Begin(ft, nil)
	require.NoError(t, r.Enroll(t.Context(), gen))
	old, end = r.live, r.gen
	r.Use(gen)
	r.live, r.gen = ft, gen
	return old, end
}

// retry counts the attempts to import a key that one generation refuses, over ten minutes.
func retry(t *testing.T, class errs.Class) (attempts int64, warned string) {
	t.Helper()
	var tried atomic.Int64
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		r := newRig(Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
		defer r.stop()
		require.NoError(t, r.rise(t.Context()))
		p, id := r.open(t, make([]byte, 8))
		r.fall()
		r.follow(t, hooks{Import: func(transport.Key) error {
			tried.Add(1)
			return errs.WithClass(class, "", errs.New(errs.InvalidKey, "", "not this key"))
		}})
		time.Sleep(10 * time.Minute)
		attempts = tried.Load()
		_, err := p.Submit([]transport.Op{read(1, id, 8)})
		require.ErrorContains(t, err, "not this key")

		// A generation that accepts the key gets it at once, although the pause is long by now.
		before := time.Now()
		oldT, old := r.follow(t, hooks{})
		synctest.Wait()
		_, err = p.Submit([]transport.Op{read(1, id, 8)})
		require.NoError(t, err)
		assert.Equal(t, before, time.Now())
		assert.Len(t, reap(t, p, 1), 1)
		require.NoError(t, p.Close(t.Context()))
		oldT.Ended()
		r.Ended(old)
	})
	return attempts, log.String()
}

// TestAStaleKeyIsSeldomRetried: the keys of a peer that restarted stay invalid. A path with such a
// key must not cost a call every few seconds for ever. The relay logs it once.
func TestAStaleKeyIsSeldomRetried(t *testing.T) {
	tried, log := retry(t, errs.ClassTransientPeer)
	assert.Less(t, tried, int64(30))
	assert.Greater(t, tried, int64(10), "it is still tried")
	assert.Equal(t, 1, strings.Count(log, "keys of a peer"), log)
}

// TestAPathThatFailsIsRetriedSoon: faults of a path are transient.
func TestAPathThatFailsIsRetriedSoon(t *testing.T) {
	tried, log := retry(t, errs.ClassTransientPath)
	assert.Greater(t, tried, int64(100))
	assert.Empty(t, log)
}
