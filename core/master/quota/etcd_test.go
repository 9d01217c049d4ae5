package quota

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/fx/fxtest"
	"go.uber.org/zap"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/metadata/storetest/etcdserver"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const upstreamsKey = "mooncake-store/c/tenant_quota_policy"

// inCluster returns the keeper of one master of a cluster with its quotas in etcd, and what starts it.
func inCluster(t *testing.T, address string) (*Keeper, *fxtest.Lifecycle, *bytes.Buffer) {
	cfg := config.Config{}
	cfg.Master.EnableMultiTenants, cfg.Master.TenantQuotaConnectorType = true, config.QuotasInEtcd
	cfg.Master.ClusterID, cfg.Master.EtcdEndpoints, cfg.Master.HABackendType = "c", address, "etcd"
	log := new(bytes.Buffer)
	lc := fxtest.NewLifecycle(t)
	k, err := provideKeeper(lc, cfg, slog.New(slog.NewTextHandler(log, nil)))
	require.NoError(t, err)
	return k, lc, log
}

// TestMastersShareQuotasInEtcd: what one master of a cluster sets is in force at the next one, and what another program
// writes at upstream's key is too.
func TestMastersShareQuotasInEtcd(t *testing.T) {
	srv := etcdserver.New(t)
	raw, err := clientv3.New(clientv3.Config{Endpoints: []string{srv.Address}, Logger: zap.NewNop()})
	require.NoError(t, err)
	defer raw.Close() //nolint:errcheck // A test.

	a, lca, _ := inCluster(t, srv.Address)
	lca.RequireStart()
	defer lca.RequireStop()
	require.Empty(t, a.Usage().List(), "there is no policy yet")
	_, err = a.Set("blue", 1<<20)
	require.NoError(t, err)
	r, err := raw.Get(t.Context(), upstreamsKey)
	require.NoError(t, err)
	require.Len(t, r.Kvs, 1)
	p, err := ParsePolicy(r.Kvs[0].Value)
	require.NoError(t, err)
	require.Equal(t, []Entry{{"blue", 1 << 20}}, p.Tenants)

	b, lcb, log := inCluster(t, srv.Address)
	lcb.RequireStart()
	defer lcb.RequireStop()
	require.NoError(t, b.Usage().Charge("blue", 1))
	_, err = b.Set("red", 2)
	require.NoError(t, err)
	_, err = a.Set("green", 3)
	require.NoError(t, err, "it reads what the other one wrote first")
	require.NoError(t, a.Usage().Charge("red", 1))
	require.NoError(t, a.Delete("green"))

	b.Look(t.Context())
	require.Len(t, b.Usage().List(), 2, "blue and red")
	_, err = raw.Put(t.Context(), upstreamsKey, "version: 1\ntenants: [{name: grey, quota: 1KB}]\n")
	require.NoError(t, err)
	b.Look(t.Context())
	require.NoError(t, b.Usage().Charge("grey", 1024))
	require.Contains(t, log.String(), upstreamsKey)

	_, err = raw.Put(t.Context(), upstreamsKey, "version: 1\ntenants: [{name: grey")
	require.NoError(t, err)
	log.Reset()
	for range 3 {
		b.Look(t.Context())
	}
	require.Equal(t, 1, strings.Count(log.String(), "ERROR"), "an error is reported once: %s", log)
	_, err = b.Set("grey", 5)
	require.True(t, errs.Is(err, errs.InvalidParams), "what cannot be read is not overwritten: %v", err)
	require.NoError(t, b.Usage().Charge("grey", 0))
}

// TestQuotasThatChangeMeanwhile: a policy that another process changes between a read and a write is not overwritten.
func TestQuotasThatChangeMeanwhile(t *testing.T) {
	srv := etcdserver.New(t)
	k, lc, _ := inCluster(t, srv.Address)
	lc.RequireStart()
	defer lc.RequireStop()
	_, version, err := k.source.Read(t.Context())
	require.NoError(t, err)
	_, err = k.Set("blue", 1)
	require.NoError(t, err)
	_, err = k.source.Write(t.Context(), []byte("version: 1\ntenants: []\n"), version)
	require.True(t, errs.Is(err, errs.UnavailableInCurrentStatus), "%v", err)
	q, err := k.Usage().Get("blue")
	require.NoError(t, err)
	require.Equal(t, model.Tenant("blue"), q.Tenant)
}

// TestQuotasOfAnEtcdThatIsNotThere: a master does not start without its quotas, and says why.
func TestQuotasOfAnEtcdThatIsNotThere(t *testing.T) {
	_, lc, _ := inCluster(t, "127.0.0.1:1")
	err := lc.Start(t.Context())
	require.True(t, errs.Is(err, errs.EtcdOperationError), "%v", err)
	require.NoError(t, lc.Stop(t.Context()))
	cfg := config.Config{}
	cfg.Master.EnableMultiTenants, cfg.Master.TenantQuotaConnectorType = true, config.QuotasInEtcd
	_, err = provideKeeper(fxtest.NewLifecycle(t), cfg, slog.New(slog.DiscardHandler))
	require.True(t, errs.Is(err, errs.InvalidParams), "%v", err)
	t.Log(err)
}
