package tcp

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// silence makes the path believe that its only connection has been silent for a while, but
// not long enough to be closed.
func (r *pair) silence(t testing.TB) {
	r.path.mu.Lock()
	defer r.path.mu.Unlock()
	require.Len(t, r.path.conns, 1)
	c := r.path.conns[0]
	c.quietSince = time.Now().Add(-r.client.cfg.StallTimeout / 2)
	require.True(t, c.silent(time.Now()))
}

func (r *pair) submit(t testing.TB, op transport.Op) {
	n, err := r.path.Submit([]transport.Op{op})
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

func slow(c *Config) { c.StallTimeout = plugin.Duration(time.Hour) }

// TestSilentConnectionIsAvoided: what hangs on one connection does not take more with it.
func TestSilentConnectionIsAvoided(t *testing.T) {
	r, f := throughProxy(t, 4096, slow, func(c *Config) { c.ConnectionsPerPeer = 2 })
	var hung atomic.Bool
	f.set(func(up bool, at int64, _ []byte) verdict {
		if !up && at >= frame.Size && hung.CompareAndSwap(false, true) {
			return drop // All that comes over this connection from now on.
		}
		return pass
	})
	r.submit(t, patient(r.read(make([]byte, 4096))))
	until(t, "an answer was swallowed", hung.Load)
	r.silence(t)
	buf := make([]byte, 4096)
	for range 10 {
		r.ok(t, patient(r.read(buf)), patient(r.write(buf)))
	}
	require.Equal(t, 2, f.accepted())
	require.Zero(t, r.client.Stats().ConnectionsCut)
}

// TestSilentConnectionSpeaksAgain: work that was held back goes out with the first bytes
// that arrive, though another answer is still awaited.
func TestSilentConnectionSpeaksAgain(t *testing.T) {
	r, f := throughProxy(t, 4096, slow)
	var requests, answers atomic.Int64
	first, letFirst := context.WithCancel(context.Background())
	second, letSecond := context.WithCancel(context.Background())
	defer letFirst()
	defer letSecond()
	f.set(func(up bool, at int64, _ []byte) verdict {
		switch {
		case at < frame.Size:
		case up:
			requests.Add(1)
		case answers.Add(1) == 1:
			<-first.Done()
		default:
			<-second.Done()
		}
		return pass
	})
	buf := make([]byte, 64)
	r.submit(t, patient(r.write(buf)))
	until(t, "the first answer is on its way", func() bool { return answers.Load() == 1 })
	r.submit(t, patient(r.read(buf[:1])))
	until(t, "the second request is out", func() bool { return requests.Load() == 2 })
	r.silence(t)
	r.submit(t, patient(r.read(buf[:2])))
	letFirst()
	until(t, "the third request is out", func() bool { return requests.Load() == 3 })
	letSecond()
	dst := make([]transport.Completion, 3)
	for n := 0; n < 3; {
		got, err := r.path.Reap(context.Background(), dst[n:])
		require.NoError(t, err)
		n += got
	}
	for _, c := range dst {
		require.Equal(t, transport.OK, c.Status, "%v", c.Err)
	}
}
