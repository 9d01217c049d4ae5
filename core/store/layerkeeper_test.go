package store_test

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/logbuf"
	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/client"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// TestAbandonedSessions are ended by the client, with a line in the log.
func TestAbandonedSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, leased)
		p.member("a:1", memberOptions{segments: []uint64{segment}})
		other := p.member("o:1", memberOptions{})
		m := p.member("c:1", memberOptions{})
		log := &logbuf.Buffer{}
		m.deps.Log, m.deps.Metrics = slog.New(slog.NewTextHandler(log, nil)), nil
		cfg := client.DefaultConfig()
		cfg.Layers.IdleTimeout, cfg.Layers.PutTimeout = time.Minute, 30*time.Second
		c, err := client.New(cfg, m.deps)
		require.NoError(t, err)
		defer c.Close(t.Context()) //nolint:errcheck // The end of the test.
		require.NoError(t, c.Put(t.Context(), "read", []byte("v"), one))
		require.NoError(t, c.Layers().StartGets(t.Context(), []string{"read"})[0])
		require.NoError(t, c.Layers().StartPuts(t.Context(), []string{"written"}, []uint64{2}, one, nil)[0])
		one := []store.Ranges{write("written", 0, []byte("x"))}
		start := time.Now()

		time.Sleep(cfg.Layers.PutTimeout - time.Second)
		require.NoError(t, c.Layers().PutRanges(t.Context(), one)[0].Err, "in use or not")
		time.Sleep(2 * time.Second)
		require.Equal(t, errs.InvalidParams, errs.CodeOf(c.Layers().PutRanges(t.Context(), one)[0].Err))
		require.Equal(t, errs.InvalidParams, errs.CodeOf(c.Layers().EndPuts(t.Context(), []string{"written"})[0]))
		require.NoError(t, c.Layers().RevokePuts(t.Context(), []string{"written"})[0])
		require.Equal(t, 1, log.Count("not ended in time"))
		require.NoError(t, other.StartPuts(t.Context(), []string{"written"}, []uint64{2}, model.DefaultReplicateConfig(), nil)[0])
		require.NoError(t, other.RevokePuts(t.Context(), []string{"written"})[0])

		time.Sleep(cfg.Layers.IdleTimeout - time.Since(start) - time.Second)
		require.Zero(t, log.Count("were not used"))
		var b [1]byte
		get := []store.Ranges{read("read", 0, b[:])}
		require.NoError(t, c.Layers().GetRanges(t.Context(), get)[0].Err, "so it is used")
		time.Sleep(cfg.Layers.IdleTimeout - time.Second)
		require.NoError(t, c.Layers().GetRanges(t.Context(), get)[0].Err)
		time.Sleep(cfg.Layers.IdleTimeout + time.Second)
		require.Equal(t, errs.InvalidParams, errs.CodeOf(c.Layers().GetRanges(t.Context(), get)[0].Err))
		require.Equal(t, 1, log.Count("were not used"))
		time.Sleep(leaseTTL)
		require.NoError(t, c.Remove(t.Context(), "read", false))
	})
}

// TestWriteStopsBeforeItsTime: bytes of a put that took too long are not on their way when
// the master gives the memory to others.
func TestWriteStopsBeforeItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, leased)
		p.member("a:1", memberOptions{segments: []uint64{segment}})
		c := p.member("c:1", memberOptions{})
		timeout := client.DefaultConfig().Layers.PutTimeout
		start := time.Now()
		require.NoError(t, c.Layers().StartPuts(t.Context(), []string{"k"}, []uint64{1}, one, nil)[0])
		var stalled atomic.Bool
		c.wire.SetHook(func(e memtransport.Event) memtransport.Fault {
			stalled.Store(true)
			return memtransport.Fault{Stall: e.Kind == transport.Write}
		})
		time.Sleep(timeout - time.Second)
		r := c.Layers().PutRanges(t.Context(), []store.Ranges{write("k", 0, []byte("v"))})[0]
		require.Equal(t, errs.TransferFail, errs.CodeOf(r.Err))
		require.True(t, stalled.Load())
		require.LessOrEqual(t, time.Since(start), timeout+time.Second)
	})
}
