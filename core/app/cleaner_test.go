package app

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/metadata"
	metahttp "github.com/mooncake-go/mooncake/core/metadata/http"
	"github.com/mooncake-go/mooncake/core/metadata/memory"
	"github.com/mooncake-go/mooncake/core/model"
	arena "github.com/mooncake-go/mooncake/plugins/alloc-arena"
	prefix "github.com/mooncake-go/mooncake/plugins/evict-prefix"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// What a dead node published goes, and nothing else: in the embedded service, and in one
// that is reached by HTTP.
func TestCleanerTakesBackWhatDeadNodesPublished(t *testing.T) {
	for name, cluster := range map[string]string{"no cluster": "", "cluster": "blue"} {
		t.Run(name, func(t *testing.T) {
			keys, others := metadata.Keys{Cluster: cluster}, metadata.Keys{Cluster: cluster + "x"}
			for _, embedded := range []bool{true, false} {
				store := memory.New(memory.Limits{})
				for _, k := range []string{keys.Segment("dead:1"), keys.RPCMeta("dead:1"), keys.Segment("alive:1"), keys.RPCMeta("alive:1"), others.Segment("dead:1")} {
					require.NoError(t, store.Put(t.Context(), k, []byte("{}")))
				}
				s := config.Store{MetadataClusterID: cluster, MetadataServer: "P2PHANDSHAKE"}
				in := store
				if !embedded {
					in = nil
					server := httptest.NewServer(metahttp.NewHandler(store))
					defer server.Close()
					s.MetadataServer = server.URL + "/metadata"
				}
				c, err := newCleaner(in, s, quiet)
				require.NoError(t, err)
				c.remove(t.Context(), []string{"never:1", "dead:1"})
				require.NoError(t, c.close(t.Context()))
				require.Equal(t, 3, store.Len())
				_, err = store.Get(t.Context(), keys.RPCMeta("dead:1"))
				require.ErrorIs(t, err, metadata.ErrNotFound)
				_, err = store.Get(t.Context(), others.Segment("dead:1"))
				require.NoError(t, err)
			}
		})
	}
}

func TestCleanerWithoutAService(t *testing.T) {
	out := &lines{each: make(chan struct{}, 16)}
	log := slog.New(slog.NewTextHandler(out, nil))
	c, err := newCleaner(nil, config.Store{MetadataServer: "P2PHANDSHAKE"}, log)
	require.NoError(t, err)
	require.Contains(t, out.String(), "there is no metadata service")
	c.remove(t.Context(), []string{"a"})

	gone := httptest.NewServer(nil)
	gone.Close()
	c, err = newCleaner(nil, config.Store{MetadataServer: gone.URL + "/metadata"}, log)
	require.NoError(t, err)
	c.remove(t.Context(), []string{"a", "b", "c"})
	require.Equal(t, 1, strings.Count(out.String(), "metadata of silent nodes stays"), "it stops at the first failure")
	require.NoError(t, c.close(t.Context()))
	_, err = newCleaner(nil, config.Store{MetadataServer: "http://"}, log)
	require.Error(t, err)
}

// The embedded metadata server and the cleanup meet: a node that falls silent is taken out
// of the very store that is served.
func TestSilentNodesAreTakenOutOfTheEmbeddedService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := settings(t, func(c *config.Config) {
			c.Master.EnableHTTPMetadataServer, c.Master.EnableMetadataCleanupOnTimeout, c.Master.EnableMetricReporting = true, true, false
		})
		m, err := newMaster(cfg, []plugin.Factory{arena.Factory(), prefix.Factory()}, quiet)
		require.NoError(t, err)
		ctx := context.Background()
		require.NoError(t, m.alloc.Start(ctx, newHost(m.allocID, quiet)))
		require.NoError(t, m.evict.Start(ctx, newHost(m.evictID, quiet)))
		require.NoError(t, m.service.Start(ctx))
		key := metadata.Keys{}.Segment("node:1")
		require.NoError(t, m.published.Put(ctx, key, []byte("{}")))
		require.NoError(t, m.service.MountSegment(ctx, model.UUID{Hi: 1}, model.Segment{ID: model.UUID{Hi: 2}, Name: "node:1", Endpoint: "node:1", Base: 1 << 40, Size: 1 << 20}))
		time.Sleep(9 * time.Second)
		require.Equal(t, 1, m.published.Len())
		time.Sleep(4 * time.Second)
		synctest.Wait()
		require.Zero(t, m.published.Len())
		require.NoError(t, m.service.Stop(ctx))
		require.NoError(t, m.alloc.Stop(ctx))
		require.NoError(t, m.evict.Stop(ctx))
		require.NoError(t, m.catalog.Close(ctx))
	})
}
