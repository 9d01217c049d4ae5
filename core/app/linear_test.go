package app

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/rpc/client"
	"github.com/mooncake-go/mooncake/core/api/rpc/server"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/master/statetest"
	"github.com/mooncake-go/mooncake/core/model"
)

// What clients see over the network has an order as well, each on a connection of its own.
func TestCallsOverTheNetworkAreLinearizable(t *testing.T) {
	m, h, err := buildMaster(t, func(c *config.Config) {
		c.Master.LeaseTTL, c.Master.EvictionHighWatermarkRatio = 0, 1
		c.Master.ClientTTL = time.Hour // The node does not ping, however long it takes.
	})
	require.NoError(t, err)
	ctx := t.Context()
	require.NoError(t, h.start(ctx))
	server := server.New(m, server.Options{Observe: m.ObserveRPC})
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	seg := model.Segment{ID: model.UUID{Hi: 2}, Name: "n:1", Endpoint: "n:1", Base: 1 << 40, Size: 4 * statetest.Size}
	require.NoError(t, m.MountSegment(ctx, model.UUID{Hi: 9}, seg))

	var clients []*client.Client
	for range 4 {
		c, err := client.Dial(ln.Addr().String(), client.Options{})
		require.NoError(t, err)
		clients = append(clients, c)
	}
	for seed := range uint64(3) {
		statetest.Contend(t, seed, len(clients), 60, func(i int) statetest.Calls { return clients[i] })
		_, err := m.RemoveAll(ctx, model.Caller{}, true)
		require.NoError(t, err)
		_, err = clearUnfinished(t, m)
		require.NoError(t, err)
	}
	for _, c := range clients {
		require.NoError(t, c.Close())
	}
	server.Stop(ctx)
	require.NoError(t, <-served)
	require.NoError(t, h.stop(ctx))
}

// clearUnfinished revokes what the clients of a history left being written.
func clearUnfinished(t *testing.T, m *master.Service) (n int, err error) {
	t.Helper()
	for c := range uint64(4) {
		for k := range statetest.Keys {
			caller := model.Caller{Client: model.UUID{Hi: 1, Lo: c + 1}}
			if _, err = m.PutRevoke(t.Context(), caller, []model.RevokeItem{{Key: statetest.Key(k)}}); err != nil {
				return n, err
			}
			n++
		}
	}
	return n, nil
}
