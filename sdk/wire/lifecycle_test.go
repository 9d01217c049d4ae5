package wire

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	pluginv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/plugin/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hearing is a host that remembers the health it heard of.
type hearing struct{ reports chan plugin.Health }

func (h hearing) Logger() *slog.Logger    { return slog.New(slog.DiscardHandler) }
func (h hearing) Report(hp plugin.Health) { h.reports <- hp }

func TestLifecycle(t *testing.T) {
	p := &fifo{}
	conn, _ := dial(t, fifoFactory(p))
	ctx := t.Context()
	e := NewEvict(conn, ClientOptions{ID: plugin.ID{Kind: "evict", Name: "fifo"}})

	m, err := e.Describe(ctx)
	require.NoError(t, err)
	assert.Equal(t, testManifest("evict", "fifo"), m)

	_, err = e.Stats(ctx)
	assert.ErrorIs(t, err, errs.UnavailableInCurrentStatus.Err(), "not configured yet")
	assert.ErrorIs(t, e.Start(ctx, nil), errs.UnavailableInCurrentStatus.Err(), "not configured yet")
	require.NoError(t, e.Stop(ctx), "stop is safe at any time")

	assert.ErrorIs(t, e.Configure(ctx, 9, nil), errs.InvalidVersion.Err())
	assert.ErrorContains(t, e.Configure(ctx, 1, []byte(`{"shard":1}`)), `did you mean "shards"?`)
	require.NoError(t, e.Configure(ctx, 1, []byte(`{"shards":8}`)), "a refused configuration may be corrected")
	assert.Equal(t, 8, p.cfg.Shards)
	assert.ErrorIs(t, e.Configure(ctx, 1, nil), errs.UnavailableInCurrentStatus.Err(), "once")
	assert.ErrorIs(t, e.Configure(ctx, 1, make([]byte, MaxConfig+1)), errs.InvalidParams.Err())

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

func TestCallsHaveABound(t *testing.T) {
	ctx, cancel := bound(context.Background())
	defer cancel()
	_, ok := ctx.Deadline()
	assert.True(t, ok)

	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	e := dialFifo(t, &fifo{}, ClientOptions{})
	assert.ErrorIs(t, e.Record(ctx, inserts(1)), context.Canceled)
	assert.ErrorIs(t, e.Start(ctx, nil), context.Canceled)
}

func TestInFlightCallsAreLimited(t *testing.T) {
	e := dialFifo(t, &fifo{}, ClientOptions{Timeout: 1})
	for range maxInFlight {
		require.NoError(t, e.caller.acquire(t.Context()))
	}
	assert.ErrorIs(t, e.Record(t.Context(), inserts(1)), errs.RPCTimeout.Err())
}

func TestVersionsOfThePluginSets(t *testing.T) {
	srv, err := NewServer(fifoFactory(&fifo{}), ServerOptions{})
	require.NoError(t, err)
	assert.Len(t, ServerPlugins(srv), 1)
	assert.Contains(t, ServerPlugins(srv), 1)
	assert.Len(t, ClientPlugins([]uint{1, 2}, ClientOptions{}), 2)
}

// liar answers Describe with what is no manifest.
type liar struct {
	pluginv1.LifecycleServiceClient
	text string
}

func (l liar) Describe(context.Context, *pluginv1.DescribeRequest, ...grpc.CallOption) (*pluginv1.DescribeResponse, error) {
	return &pluginv1.DescribeResponse{ManifestJson: []byte(l.text)}, nil
}

func TestDescribeTrustsNothing(t *testing.T) {
	for _, text := range []string{"", "{", `{"mooncake_plugin_manifest":2}`, `{"mooncake_plugin_manifest":1,"kind":"evict"}`} {
		l := &Lifecycle{id: "evict/liar", rpc: liar{text: text}}
		_, err := l.Describe(t.Context())
		assert.ErrorIs(t, err, errs.InvalidParams.Err(), text)
	}
}
