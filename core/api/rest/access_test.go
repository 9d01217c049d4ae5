package rest_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/rest"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/access"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/internal/testkit/logbuf"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/security"
)

func TestTheTableOfCallsHasEveryRoute(t *testing.T) {
	known := map[string]bool{}
	for _, r := range rest.Routes() {
		assert.True(t, r.Listed, "access lacks %s %s", r.Method, r.Path)
		known[r.Method+" "+r.Path] = true
	}
	for _, c := range access.Table() {
		if c.Service == string(config.DoorAdmin) {
			assert.True(t, known[c.Name], "access has %s, which is no route any more", c.Name)
		}
	}
}

// tenants is a master with two tenants.
type tenants struct {
	rest.Master
	registry *prometheus.Registry
	removed  []string
}

func newTenants() *tenants {
	m := &tenants{registry: prometheus.NewRegistry()}
	of := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "mooncake_of_tenant", Help: "A test."}, []string{"tenant_id"})
	of.WithLabelValues("team").Set(1)
	of.WithLabelValues("default").Set(2)
	all := prometheus.NewGauge(prometheus.GaugeOpts{Name: "mooncake_of_all", Help: "A test."})
	m.registry.MustRegister(of, all)
	return m
}

func (m *tenants) Metrics() prometheus.Gatherer { return m.registry }

func (m *tenants) TenantQuota(_ context.Context, t model.Tenant) (model.TenantQuota, error) {
	if t != "team" && t != "default" {
		return model.TenantQuota{}, errs.TenantNotRegistered.Err()
	}
	return model.TenantQuota{Tenant: t}, nil
}

func (m *tenants) TenantQuotas(context.Context) ([]model.TenantQuota, error) {
	return []model.TenantQuota{{Tenant: "default"}, {Tenant: "team"}}, nil
}

func (m *tenants) SetTenantQuota(_ context.Context, t model.Tenant, _ uint64) (model.TenantQuota, error) {
	return model.TenantQuota{Tenant: t}, nil
}

func (m *tenants) ListKeys(_ context.Context, c model.Caller, _ string, _ model.Key, _ int) ([]model.Key, error) {
	return []model.Key{"key-of-" + c.Tenant}, nil
}

func (m *tenants) RemoveAll(_ context.Context, c model.Caller, _ bool) (int, error) {
	m.removed = append(m.removed, c.Tenant)
	return 1, nil
}

func (m *tenants) WalkKeys(yield func(model.Key) bool) { yield("key") }

func (m *tenants) QueryTask(_ context.Context, id model.TaskID) (model.Task, error) {
	return model.Task{ID: id, Spec: model.TaskSpec{Tenant: "team"}}, nil
}

func TestIdentitiesAskForWhatTheyMay(t *testing.T) {
	var log logbuf.Buffer
	d, err := doors.Open(config.Security{Mode: "off"}, slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	m := newTenants()
	h := rest.NewHandler(m, rest.Options{Doors: d})
	ask := func(who, method, path, body string) (int, string) {
		id, err := security.ParseIdentity("spiffe://test/mooncake/" + who)
		require.NoError(t, err)
		p := access.NewPeer(id, config.DoorAdmin, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 1})
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(access.With(t.Context(), p), method, path, strings.NewReader(body)))
		return w.Code, w.Body.String()
	}
	quota := `{"requested_quota_bytes":1}`
	task := "/api/v1/tasks?task_id=" + model.UUID{Lo: 1}.String()
	for _, c := range []struct {
		who, method, path, body string
		code                    int
		has, lacks              string
	}{
		{"client/a", "GET", "/metrics", "", 403, "client/a may not call admin GET /metrics", "mooncake_of_all"},
		{"client/a", "POST", "/api/v1/remove_all", "", 403, "use a certificate with a role among master, operator", ""},
		{"reader/a", "POST", "/api/v1/remove_all", "", 403, "ILLEGAL_CLIENT", ""},
		{"reader/a", "GET", "/api/v1/keys", "", 403, "", "key-of"},
		{"reader/a", "GET", "/metrics", "", 200, `tenant_id="default"`, `tenant_id="team"`},
		{"reader/team/a", "GET", "/metrics", "", 200, `tenant_id="team"`, `tenant_id="default"`},
		{"operator/a", "GET", "/metrics", "", 200, `tenant_id="team"`, "xyz"},
		{"operator/team/a", "GET", "/api/v1/tenant_quotas", "", 200, `"team"`, `"default"`},
		{"operator/team/a", "GET", "/api/v1/tenant_quotas?tenant_id=default", "", 403, `operator/team/a is of tenant`, ""},
		{"operator/team/a", "PUT", "/api/v1/tenant_quotas?tenant_id=team", quota, 403, "concerns all tenants", ""},
		{"operator/a", "PUT", "/api/v1/tenant_quotas?tenant_id=team", quota, 200, "", "refused"},
		{"operator/team/a", "GET", "/api/v1/keys", "", 200, "key-of-team", ""},
		{"operator/team/a", "GET", "/api/v1/keys?tenant_id=default", "", 403, "", "key-of"},
		{"operator/team/a", "GET", "/get_all_keys", "", 403, "", "key\n"},
		{"operator/team/a", "GET", "/query_key?key=k", "", 403, "", ""},
		{"operator/team/a", "GET", "/batch_query_keys?keys=k", "", 403, "", ""},
		{"operator/a", "GET", "/get_all_keys", "", 200, "key", ""},
		{"operator/team/a", "POST", "/api/v1/remove_all", "", 200, "", ""},
		{"operator/team/a", "POST", "/api/v1/remove_all?tenant_id=default", "", 403, "", ""},
		{"operator/a", "POST", "/api/v1/remove_all", "", 200, "", ""},
		{"operator/team/a", "POST", "/api/v1/drain_jobs", `{"segments":["a"]}`, 403, "concerns all tenants", ""},
		{"operator/other/a", "GET", task, "", 404, "TASK_NOT_FOUND", ""},
		{"operator/team/a", "GET", task, "", 200, `"team"`, ""},
		{"master/a", "POST", "/api/v1/remove_all?tenant_id=team", "", 200, "", ""},
	} {
		code, text := ask(c.who, c.method, c.path, c.body)
		name := fmt.Sprintf("%s %s %s: %s", c.who, c.method, c.path, text)
		assert.Equal(t, c.code, code, name)
		assert.Contains(t, text, c.has, name)
		if c.lacks != "" {
			assert.NotContains(t, text, c.lacks, name)
		}
	}
	require.Equal(t, []string{"team", model.AllTenants, "team"}, m.removed)
	for _, line := range []string{
		`who=operator/team/a trust=test door=admin remote=10.0.0.7:1 tenant=team call="POST /api/v1/remove_all" object="all keys of tenant \"team\", force false" result=done`,
		`who=operator/a trust=test door=admin remote=10.0.0.7:1 call="PUT /api/v1/tenant_quotas" object="tenant \"team\", 1 bytes" result=done`,
		`call="POST /api/v1/remove_all" result=refused`,
	} {
		assert.Contains(t, log.String(), line)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/api/v1/remove_all", nil))
	require.Equal(t, http.StatusOK, w.Code, "without an identity all is as before")
}
