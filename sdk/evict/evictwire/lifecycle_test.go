package evictwire

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hearing is a host that remembers the health that was reported to it.
type hearing struct{ reports chan plugin.Health }

func (h hearing) Logger() *slog.Logger    { return slog.New(slog.DiscardHandler) }
func (h hearing) Report(hp plugin.Health) { h.reports <- hp }

func TestLifecycle(t *testing.T) {
	p := &fifo{}
	ctx := t.Context()
	e := NewClient(dial(t, p).Conn, wire.ClientOptions{ID: plugin.ID{Kind: "evict", Name: "fifo"}})

	m, err := e.Describe(ctx)
	require.NoError(t, err)
	assert.Equal(t, testManifest().ID, m.ID)
	assert.Contains(t, string(m.Settings), `"additionalProperties":false`)

	_, err = e.Stats(ctx)
	assert.ErrorIs(t, err, errs.UnavailableInCurrentStatus.Err(), "not configured yet")
	assert.ErrorIs(t, e.Start(ctx, nil), errs.UnavailableInCurrentStatus.Err(), "not configured yet")
	require.NoError(t, e.Stop(ctx), "stop is safe at any time")

	assert.ErrorIs(t, e.Configure(ctx, 9, nil), errs.InvalidVersion.Err())
	assert.ErrorContains(t, e.Configure(ctx, 1, []byte(`{"shard":1}`)), `did you mean "shards"?`)
	require.NoError(t, e.Configure(ctx, 1, []byte(`{"shards":8}`)), "a refused configuration may be corrected")
	assert.Equal(t, 8, p.cfg.Shards)
	assert.ErrorIs(t, e.Configure(ctx, 1, nil), errs.UnavailableInCurrentStatus.Err(), "once")
	assert.ErrorIs(t, e.Configure(ctx, 1, make([]byte, wire.MaxConfig+1)), errs.InvalidParams.Err())

	host := hearing{make(chan plugin.Health, 16)}
	require.NoError(t, e.Start(ctx, host))
	assert.ErrorIs(t, e.Start(ctx, host), errs.UnavailableInCurrentStatus.Err(), "once")
	assert.Equal(t, plugin.Health{State: plugin.StateOK}, <-host.reports, "the current health comes first")
	p.host.Report(plugin.Health{State: plugin.StateDegraded, Reason: "slow"})
	assert.Equal(t, plugin.Health{State: plugin.StateDegraded, Reason: "slow"}, <-host.reports)
	p.host.Report(plugin.Health{State: "weird", Reason: "?"})
	assert.Equal(t, plugin.StateDegraded, (<-host.reports).State, "an unknown state is not passed on")
	p.host.Logger().Info("a plugin may log")

	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { assert.NoError(t, e.Stop(ctx)) })
	}
	wg.Wait()
}

func TestCallsEndWithTheirContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e := dialFifo(t, &fifo{}, wire.ClientOptions{})
	assert.ErrorIs(t, e.Record(ctx, inserts(1)), context.Canceled)
	assert.ErrorIs(t, e.Start(ctx, nil), context.Canceled)
}

func TestVersionsOfThePluginSets(t *testing.T) {
	k := Kind().Descriptor()
	srv, err := wire.NewServer(k, fifoFactory(&fifo{}), wire.ServerOptions{})
	require.NoError(t, err)
	assert.Len(t, wire.ServerPlugins(srv), 1)
	assert.Contains(t, wire.ServerPlugins(srv), 1)
	assert.Len(t, wire.ClientPlugins(k, []uint{1, 2}, wire.ClientOptions{}), 2)
}
