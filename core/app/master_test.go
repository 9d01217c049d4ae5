package app

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/metadata"
	metahttp "github.com/mooncake-go/mooncake/core/metadata/http"
	"github.com/mooncake-go/mooncake/core/metadata/memory"
	"github.com/mooncake-go/mooncake/core/model"
	arena "github.com/mooncake-go/mooncake/plugins/alloc-arena"
	lru "github.com/mooncake-go/mooncake/plugins/evict-lru"
	prefix "github.com/mooncake-go/mooncake/plugins/evict-prefix"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// buildMaster makes a master without ports, which is not started.
func buildMaster(t *testing.T, change func(*config.Config), more ...fx.Option) (*master.Service, *hooks, error) {
	t.Helper()
	var m *master.Service
	factories := []plugin.Factory{arena.Factory(), prefix.Factory(), lru.Factory()}
	more = append(more, supply(settings(t, change), factories), masterModules(), metahttp.EmbeddedModule(), fx.Populate(&m))
	h, err := build(quiet, more...)
	return m, h, err
}

func TestRPCInterface(t *testing.T) {
	given := func(ifc string) config.Config {
		return config.Config{Master: config.Master{RPCInterface: ifc, RPCAddress: "0.0.0.0"}}
	}
	cfg, err := ResolveInterface(given(""))
	require.NoError(t, err)
	assert.Equal(t, "0.0.0.0", cfg.Master.RPCAddress)
	cfg, err = ResolveInterface(given("lo"))
	require.NoError(t, err)
	assert.Equal(t, "127.0.0.1", cfg.Master.RPCAddress)
	_, err = ResolveInterface(given("nosuch0"))
	assert.ErrorContains(t, err, "master.rpc_interface")
	assert.ErrorContains(t, err, "nosuch0")
	assert.ErrorContains(t, err, "ip -brief addr")
	assert.False(t, errs.Is(err, errs.InvalidParams), "it is the machine that is not as the configuration says: exit code 1")
}

func TestTenantsNeedTheirFile(t *testing.T) {
	multi := func(path string) (*master.Service, error) {
		m, _, err := buildMaster(t, func(c *config.Config) { c.Master.EnableMultiTenants, c.Master.TenantQuotaConnectorURI = true, path })
		return m, err
	}
	_, err := multi("")
	require.ErrorContains(t, err, "tenant_quota_connector_uri")
	_, err = multi(filepath.Join(t.TempDir(), "none"))
	require.Equal(t, errs.FileNotFound, errs.CodeOf(err))
	path := filepath.Join(t.TempDir(), "quotas.yaml")
	require.NoError(t, os.WriteFile(path, []byte("version: 1\ntenants: []\n"), 0o600))
	m, err := multi(path)
	require.NoError(t, err)
	q, err := m.SetTenantQuota(t.Context(), "a", 1<<20)
	require.NoError(t, err)
	require.Equal(t, uint64(1<<20), q.Requested)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(data), "a")
	single, _, err := buildMaster(t, nil)
	require.NoError(t, err)
	_, err = single.TenantQuotas(t.Context())
	require.Equal(t, errs.UnavailableInCurrentMode, errs.CodeOf(err))
}

func TestKVEventsWithAnEndpointThatIsNone(t *testing.T) {
	role := func(at string) (*master.Service, error) {
		m, _, err := buildMaster(t, func(c *config.Config) {
			c.Master.Evictor = "lru"
			c.Master.EnableKVEvents, c.Master.KVEventsBindEndpoint, c.Master.KVEventsBackendID = true, at, "b"
		})
		return m, err
	}
	_, err := role("tcp://nowhere")
	require.ErrorContains(t, err, "master.kv_events_bind_endpoint")
	m, err := role("tcp://127.0.0.1:0")
	require.NoError(t, err)
	require.True(t, m.KVEvents().Enabled)
}

// The embedded metadata server and the cleanup use the same content: a node that falls silent
// disappears from the metadata that is served.
func TestSilentNodesAreTakenOutOfTheEmbeddedService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var published *memory.Store
		m, h, err := buildMaster(t, func(c *config.Config) {
			c.Master.EnableHTTPMetadataServer, c.Master.EnableMetadataCleanupOnTimeout, c.Master.EnableMetricReporting = true, true, false
			c.Master.HTTPMetadataServerHost, c.Master.HTTPMetadataServerPort = "127.0.0.1", 0
		}, fx.Populate(&published))
		require.NoError(t, err)
		ctx := context.Background()
		h.all = h.all[:len(h.all)-1] // The port waits for connections outside the bubble.
		require.NoError(t, h.start(ctx))
		key := metadata.Keys{}.Segment("node:1")
		require.NoError(t, published.Put(ctx, key, []byte("{}")))
		require.NoError(t, m.MountSegment(ctx, model.UUID{Hi: 1}, model.Segment{ID: model.UUID{Hi: 2}, Name: "node:1", Endpoint: "node:1", Base: 1 << 40, Size: 1 << 20}))
		time.Sleep(9 * time.Second)
		require.Equal(t, 1, published.Len())
		time.Sleep(4 * time.Second)
		synctest.Wait()
		require.Zero(t, published.Len())
		require.NoError(t, h.stop(ctx))
	})
}
