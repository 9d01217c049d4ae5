package app

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/rpc/client"
	"github.com/mooncake-go/mooncake/core/api/rpc/server"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/master/statetest"
	"github.com/mooncake-go/mooncake/core/model"
	arena "github.com/mooncake-go/mooncake/plugins/alloc-arena"
	prefix "github.com/mooncake-go/mooncake/plugins/evict-prefix"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// What clients see over the network has an order as well, each on a connection of its own.
func TestCallsOverTheNetworkAreLinearizable(t *testing.T) {
	cfg := settings(t, func(c *config.Config) {
		c.Master.LeaseTTL, c.Master.EvictionHighWatermarkRatio = 0, 1
		c.Master.ClientTTL = time.Hour // The node does not ping, however long it takes.
	})
	m, err := newMaster(cfg, []plugin.Factory{arena.Factory(), prefix.Factory()}, quiet)
	require.NoError(t, err)
	ctx := t.Context()
	require.NoError(t, m.alloc.Start(ctx, newHost(m.allocID, quiet)))
	require.NoError(t, m.evict.Start(ctx, newHost(m.evictID, quiet)))
	require.NoError(t, m.service.Start(ctx))
	server := server.New(m.service, server.Options{Observe: m.service.ObserveRPC})
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	seg := model.Segment{ID: model.UUID{Hi: 2}, Name: "n:1", Endpoint: "n:1", Base: 1 << 40, Size: 4 * statetest.Size}
	require.NoError(t, m.service.MountSegment(ctx, model.UUID{Hi: 9}, seg))

	var clients []*client.Client
	for range 4 {
		c, err := client.Dial(ln.Addr().String(), client.Options{})
		require.NoError(t, err)
		clients = append(clients, c)
	}
	for seed := range uint64(3) {
		statetest.Contend(t, seed, len(clients), 60, func(i int) statetest.Calls { return clients[i] })
		_, err := m.service.RemoveAll(ctx, model.Caller{}, true)
		require.NoError(t, err)
		_, err = clearUnfinished(t, m)
		require.NoError(t, err)
	}
	for _, c := range clients {
		require.NoError(t, c.Close())
	}
	server.Stop(ctx)
	require.NoError(t, <-served)
	require.NoError(t, m.service.Stop(ctx))
	require.NoError(t, m.evict.Stop(ctx))
	require.NoError(t, m.alloc.Stop(ctx))
	require.NoError(t, m.catalog.Close(ctx))
}

// clearUnfinished revokes what the clients of a history left being written.
func clearUnfinished(t *testing.T, m *masterRole) (n int, err error) {
	t.Helper()
	for c := range uint64(4) {
		for k := range statetest.Keys {
			caller := model.Caller{Client: model.UUID{Hi: 1, Lo: c + 1}}
			if _, err = m.service.PutRevoke(t.Context(), caller, []model.RevokeItem{{Key: statetest.Key(k)}}); err != nil {
				return n, err
			}
			n++
		}
	}
	return n, nil
}
