package wheels

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/builtin"
	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
)

// TestOurClient: a client of ours writes to the memory of a node of each version, and reads from it.
func TestOurClient(t *testing.T) {
	if control {
		t.Skip("a client of ours does not use upstream's masters")
	}
	for _, version := range every {
		if !full && version != versions[0] {
			continue
		}
		t.Run(version, func(t *testing.T) {
			wheels(t)
			run(t, version, "our client at its memory", func(c *check) { ourClient(c, version) })
		})
	}
}

func ourClient(c *check, version string) {
	puts := 200
	if full {
		puts = 2000
	}
	m := startMaster(c, version)
	node := startClient(c, version, m, segment)
	ours := openOurs(c, m)
	sizes := []int{1, 8, 1000, 4096, 40_000, 100_000}
	var all []object
	for i := range puts {
		all = append(all, objects(fmt.Sprintf("ours/%d", i), 1, sizes[i%len(sizes)])...)
	}
	all = append(all, objects("ours/large", 1, 1<<20, 5<<20)...)
	for _, o := range all {
		require.NoError(c, ours.Put(c.Context(), o.key, o.content(), model.DefaultReplicateConfig()), "%s, %d bytes", o.key, o.size)
	}
	for _, o := range all {
		got, err := ours.Get(c.Context(), o.key)
		require.NoError(c, err, "%s, %d bytes", o.key, o.size)
		require.True(c, bytes.Equal(o.content(), got), "%s, %d bytes", o.key, o.size)
	}
	for some := range slices.Chunk(all, 100) {
		for i, v := range node.getAgain(c, "batch_get_into", some) {
			require.Equal(c, some[i].value(), v, "the node itself reads %s, %d bytes", some[i].key, some[i].size)
		}
	}
	c.notef("%d puts and gets", puts+2)
}

// openOurs opens a client of ours in this process.
func openOurs(t testing.TB, m *master) store.Calls {
	t.Helper()
	loaded, err := config.Load(config.Options{Role: config.RoleClient})
	require.NoError(t, err)
	cfg := loaded.Config
	cfg.Store.MasterServerAddress, cfg.Store.LocalHostname = m.rpc, "127.0.0.1"
	cfg.Store.Protocol, cfg.Store.Transports = "tcp", []string{"tcp"}
	if onDevices {
		cfg.Store.Protocol, cfg.Store.Transports, cfg.Store.DeviceNames = "rdma", []string{"rdma"}, []string{ourDevice}
	}
	cfg.Admin.Socket = config.SocketOff
	c, err := app.OpenClient(t.Context(), cfg, builtin.Plugins(), app.ClientOptions{Log: slog.New(slog.DiscardHandler), AllocWait: time.Minute})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
	require.NoError(t, c.Await(t.Context(), patience))
	return store.Calls{Pool: c.Store}
}

// valueOf is what a client of ours gets of an object, nil where that fails.
func valueOf(t testing.TB, ours store.Calls, o object) *value {
	t.Helper()
	got, err := ours.Get(t.Context(), o.key)
	if err != nil {
		t.Logf("our client gets %s: %v", o.key, err)
		return nil
	}
	return digest(got)
}
