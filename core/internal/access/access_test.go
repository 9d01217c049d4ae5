package access_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	localv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/local/v1"
	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"
	nodev1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/node/v1"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/access"
	"github.com/mooncake-go/mooncake/core/internal/callctx"
	"github.com/mooncake-go/mooncake/core/internal/testkit/logbuf"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/security"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var addr = &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 4711}

// as returns the context of a call of an identity: ROLE/NAME or ROLE/TENANT/NAME.
func as(t testing.TB, who string) context.Context {
	t.Helper()
	id, err := security.ParseIdentity("spiffe://test/mooncake/" + who)
	require.NoError(t, err)
	return access.With(t.Context(), access.NewPeer(id, config.DoorRPC, addr))
}

func control(t testing.TB) (*access.Control, *logbuf.Buffer, *prometheus.Registry) {
	t.Helper()
	log, reg := &logbuf.Buffer{}, prometheus.NewRegistry()
	return access.NewControl("log", slog.New(slog.NewTextHandler(log, nil)), reg), log, reg
}

func rpc(name string) *access.Call { return access.Find(access.MasterService, name) }

// TestTheTableHasEveryMethod of every service that doors offer, and no other.
func TestTheTableHasEveryMethod(t *testing.T) {
	known := map[string]bool{}
	for _, d := range []grpc.ServiceDesc{masterv1.MasterService_ServiceDesc, nodev1.TierService_ServiceDesc, localv1.StatusService_ServiceDesc} {
		assert.Empty(t, d.Streams, "a stream passes Control.Service by")
		for _, m := range d.Methods {
			assert.NotNil(t, access.Find(d.ServiceName, m.MethodName), "%s %s", d.ServiceName, m.MethodName)
			known[d.ServiceName+" "+m.MethodName] = true
		}
	}
	for _, c := range access.Table() {
		if strings.HasPrefix(c.Service, "mooncake.") {
			assert.True(t, known[c.String()], "%s is not there any more", c)
		}
		assert.Same(t, c, access.Find(c.Service, c.Name), "%s is in the table twice", c)
	}
	assert.LessOrEqual(t, len(access.Table()), 128, "the set of a peer has so many bits")
}

func TestRoles(t *testing.T) {
	k, _, _ := control(t)
	for _, c := range []struct {
		call    *access.Call
		allowed string // the first letters of the roles
	}{
		{rpc("Ready"), "mscor"}, {rpc("MountSegment"), "msc"}, {rpc("PutStart"), "msc"}, {rpc("Exist"), "msco"}, {rpc("RemoveAll"), "msco"},
		{rpc("Follow"), "m"}, {rpc("Segments"), "mscor"}, {access.Find("admin", "GET /metrics"), "mor"}, {access.Find("admin", "POST /api/v1/remove_all"), "mo"},
		{access.Find("admin", "GET /health"), "mscor"}, {access.Find("admin", "PUT /api/v1/tenant_quotas"), "mo"}, {access.Find("metadata", "PUT /metadata"), "msco"},
		{access.Find("rest", "POST /api/mount"), "mo"}, {access.Find("handshake", "metadata"), "msc"}, {nil, ""},
	} {
		for _, r := range security.Roles() {
			err := k.Check(as(t, string(r)+"/a"), c.call)
			if strings.Contains(c.allowed, string(r[0])) {
				assert.NoError(t, err, "%s %s", r, c.call)
				continue
			}
			assert.True(t, errs.Is(err, errs.IllegalClient), "%s %s: %v", r, c.call, err)
			assert.ErrorContains(t, err, string(r)+"/a may not")
		}
		assert.NoError(t, k.Check(t.Context(), c.call), "without an identity")
	}
	assert.ErrorContains(t, k.Check(as(t, "reader/a"), rpc("PutStart")), "use a certificate with a role among master, store, client")
	assert.ErrorContains(t, k.Check(as(t, "operator/team/a"), access.Find("admin", "PUT /api/v1/tenant_quotas")), "concerns all tenants")
	require.Error(t, (*access.Control)(nil).Check(as(t, "reader/a"), rpc("PutStart")), "a nil Control decides as well")
}

func TestClientsOfOthersAreRefused(t *testing.T) {
	k, _, _ := control(t)
	ctx := as(t, "client/a")
	mine := model.UUID{Hi: access.Owner(access.Of(ctx).Identity), Lo: 1}
	other := model.UUID{Hi: mine.Hi + 1, Lo: 1}
	require.NoError(t, k.Own(ctx, rpc("PutEnd"), mine, false))
	require.ErrorContains(t, k.Own(ctx, rpc("PutEnd"), other, false), "which is not its own")
	require.Error(t, k.Own(ctx, rpc("PutEnd"), model.UUID{}, false))
	require.NoError(t, k.Own(ctx, rpc("Exist"), model.UUID{}, true))
	require.Error(t, k.Own(ctx, rpc("Exist"), other, true))
	require.NoError(t, k.Own(as(t, "master/a"), rpc("PutEnd"), other, false), "a master passes on the calls of others")
	require.NoError(t, k.Own(t.Context(), rpc("PutEnd"), other, false))
	require.Equal(t, mine, access.Adopt(ctx, other))
	seen := map[uint64]string{}
	for _, who := range []string{"client/a", "client/b", "store/a", "client/a/b", "client/b/a", "client/a/a"} {
		o := access.Owner(access.Of(as(t, who)).Identity)
		require.Empty(t, seen[o], who)
		seen[o] = who
	}
}

func TestTenants(t *testing.T) {
	k, _, _ := control(t)
	for _, c := range []struct{ who, asked, got string }{
		{"client/a", "", "default"}, {"client/a", "default", "default"}, {"client/a", "team", "refused"},
		{"client/team/a", "", "team"}, {"client/team/a", "team", "team"}, {"client/team/a", "default", "refused"}, {"client/team/a", model.AllTenants, "refused"},
		{"reader/a", "team", "refused"}, {"store/a", "", ""}, {"store/a", "team", "team"}, {"store/team/a", "default", "refused"},
		{"operator/a", model.AllTenants, model.AllTenants}, {"operator/team/a", "", "team"}, {"operator/team/a", model.AllTenants, "refused"}, {"master/a", "team", "team"},
	} {
		got, err := k.Tenant(as(t, c.who), rpc("Exist"), c.asked)
		if c.got == "refused" {
			assert.True(t, errs.Is(err, errs.IllegalClient), "%s asks for %q: %v", c.who, c.asked, err)
			continue
		}
		require.NoError(t, err, "%s asks for %q", c.who, c.asked)
		assert.Equal(t, c.got, got, "%s asks for %q", c.who, c.asked)
	}
	require.ErrorContains(t, k.OneTenant(as(t, "client/team/a"), rpc("Exist")), "--enable_multi_tenants")
	for _, who := range []string{"client/a", "client/default/a", "store/a", "operator/a"} {
		require.NoError(t, k.OneTenant(as(t, who), rpc("Exist")), who)
	}
	task := model.Task{ID: model.UUID{Lo: 9}, Spec: model.TaskSpec{Tenant: "team"}}
	_, err := access.OwnTask(as(t, "client/a"), task)
	require.True(t, errs.Is(err, errs.TaskNotFound))
	_, err = access.OwnTask(as(t, "client/team/a"), task)
	require.NoError(t, err)
}

// TestRefusalsAreToldAtMostOnceAMinute for each identity, call and door, and all are counted.
func TestRefusalsAreToldAtMostOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, log, reg := control(t)
		for range 3 {
			require.Error(t, k.Check(as(t, "reader/a"), rpc("PutStart")))
		}
		require.Error(t, k.Check(as(t, "reader/b"), rpc("PutStart")))
		require.Equal(t, 2, strings.Count(log.String(), "a call was refused"))
		require.Contains(t, log.String(), `logger=audit who=reader/a trust=test door=rpc remote=10.0.0.7:4711 tenant=default call=PutStart result=refused`)
		time.Sleep(time.Minute)
		require.Error(t, k.Check(as(t, "reader/a"), rpc("PutStart")))
		require.Contains(t, log.String(), "more_since_last_line=2")
		families, err := reg.Gather()
		require.NoError(t, err)
		require.Len(t, families, 1)
		require.Equal(t, "mooncake_refused_calls_total", families[0].GetName())
		require.Len(t, families[0].GetMetric(), 1)
		require.Equal(t, `label:{name:"call" value:"PutStart"} label:{name:"door" value:"rpc"} label:{name:"role" value:"reader"}`,
			strings.Join(labels(families[0].GetMetric()[0]), " "))
		require.InDelta(t, 5, families[0].GetMetric()[0].GetCounter().GetValue(), 0)
	})
}

func labels(m *dto.Metric) (out []string) {
	for _, l := range m.GetLabel() {
		out = append(out, fmt.Sprintf(`label:{name:%q value:%q}`, l.GetName(), l.GetValue()))
	}
	return out
}

func TestChangesAreTold(t *testing.T) {
	k, log, _ := control(t)
	k.Done(as(t, "operator/team/a"), rpc("RemoveAll"), `tenant "team"`, nil)
	require.Contains(t, log.String(), `msg="a call was made" logger=audit who=operator/team/a trust=test door=rpc remote=10.0.0.7:4711 tenant=team call=RemoveAll object="tenant \"team\"" result=done`)
	k.Done(access.With(t.Context(), &access.Peer{Remote: "10.0.0.8:1"}), rpc("RemoveAll"), "tenant b", errs.RPCFail.Err())
	require.Contains(t, log.String(), `who=10.0.0.8:1 call=RemoveAll object="tenant b" result=failed error=RPC_FAIL`)
	k.Done(t.Context(), rpc("RemoveAll"), "tenant c", nil)
	require.Contains(t, log.String(), `who="this process"`)
}

// TestSumsAreToldOnceAMinute: objects that were put and removed have no line each.
func TestSumsAreToldOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, log, _ := control(t)
		ctx := as(t, "client/a")
		for range 100 {
			k.Count(ctx, rpc("PutEnd"), 2, 1)
		}
		k.Done(ctx, rpc("CopyEnd"), "", nil)
		k.Count(t.Context(), rpc("PutEnd"), 1, 0) // A peer without an identity is not counted.
		require.Empty(t, log.String())
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Contains(t, log.String(), `call=PutEnd done=200 failed=100`)
		require.Contains(t, log.String(), `call=CopyEnd done=1 failed=0`)
		require.Equal(t, 2, strings.Count(log.String(), "\n"))
		for i := range 3000 {
			k.Count(as(t, "client/c"+strconv.Itoa(i)), rpc("PutEnd"), 1, 0)
		}
		k.Count(ctx, rpc("PutEnd"), 7, 0)
		k.Close()
		require.LessOrEqual(t, strings.Count(log.String(), "\n"), 2+1024+1, "the table is bounded")
		require.Contains(t, log.String(), "who=others call=PutEnd done=1983")
		k.Close()
	})
}

func TestTheAuditHasAFileOfItsOwn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.json")
	var log logbuf.Buffer
	k := access.NewControl(path, slog.New(slog.NewTextHandler(&log, nil)), prometheus.NewRegistry())
	ctx := as(t, "operator/a")
	k.Done(ctx, rpc("RemoveAll"), "tenant a", nil)
	require.NoError(t, os.Rename(path, path+".1"))
	k.Done(ctx, rpc("RemoveAll"), "tenant b", nil)
	for file, tenant := range map[string]string{path + ".1": "tenant a", path: "tenant b"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var line map[string]any
		require.NoError(t, json.Unmarshal(bytes.TrimSpace(text), &line), string(text))
		require.Equal(t, tenant, line["object"])
		require.Equal(t, "operator/a", line["who"])
	}
	require.Empty(t, log.String())
	require.NoError(t, os.RemoveAll(filepath.Dir(path)))
	k.Done(ctx, rpc("RemoveAll"), "tenant c", nil)
	k.Done(ctx, rpc("RemoveAll"), "tenant d", nil)
	require.Contains(t, log.String(), "tenant c", "a line that has no file is in the log")
	require.Equal(t, 1, strings.Count(log.String(), "cannot be written to its file"))
	off := access.NewControl("off", slog.New(slog.NewTextHandler(&log, nil)), prometheus.NewRegistry())
	before := log.String()
	off.Done(ctx, rpc("RemoveAll"), "tenant e", nil)
	require.Error(t, off.Check(as(t, "reader/a"), rpc("PutStart")))
	off.Count(ctx, rpc("PutEnd"), 1, 0)
	off.Close()
	require.Equal(t, before, log.String())
}

func TestHTTPPortsAnswer403(t *testing.T) {
	k, _, _ := control(t)
	mux := http.NewServeMux()
	ok := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }
	k.Handle(mux, config.DoorHealth, "GET /metrics", ok)
	k.Handle(mux, config.DoorHealth, "GET /nothing", ok)
	h := k.Over(access.Find(access.Profiles, "GET /debug/pprof/"), "/debug/pprof/", mux)
	for _, c := range []struct {
		who, path string
		code      int
	}{
		{"reader/a", "/metrics", 200}, {"client/a", "/metrics", 403}, {"operator/a", "/nothing", 403}, {"reader/a", "/debug/pprof/heap", 403},
		{"reader/a", "//debug/pprof/heap", 403}, {"operator/a", "/debug/pprof/heap", 404}, {"reader/a", "/debug/pprof", 403},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(as(t, c.who), http.MethodGet, c.path, nil))
		assert.Equal(t, c.code, w.Code, "%s %s", c.who, c.path)
	}
}

// TestAllowedCallsCostNoMemory in any of the protocols.
func TestAllowedCallsCostNoMemory(t *testing.T) {
	k, _, _ := control(t)
	c, put := rpc("PutEnd"), rpc("PutEnd")
	over := as(t, "client/a")
	p := access.Of(over)
	own := model.UUID{Hi: access.Owner(p.Identity), Lo: 1}
	var framed callctx.Call
	framed.BeginDetached(over, time.Now().Add(time.Hour))
	for name, ctx := range map[string]context.Context{
		"http": over, "framed": &framed, "gRPC": peer.NewContext(t.Context(), &peer.Peer{AuthInfo: p}),
	} {
		require.Same(t, p, access.Of(ctx), name)
		n := testing.AllocsPerRun(100, func() {
			if k.Check(ctx, c) != nil || k.Own(ctx, c, own, false) != nil {
				t.Fail()
			}
			if _, err := k.Tenant(ctx, c, ""); err != nil {
				t.Fail()
			}
			k.Count(ctx, put, 1, 0)
		})
		require.Zero(t, n, name)
	}
	require.True(t, framed.Finish(), "the context of a framed call is used again: no context was derived of it")
	k.Close()
}

func BenchmarkCheck(b *testing.B) {
	k, _, _ := control(b)
	var call callctx.Call
	call.BeginDetached(as(b, "client/a"), time.Now().Add(time.Hour))
	c := rpc("PutEnd")
	own := model.UUID{Hi: access.Owner(access.Of(&call).Identity), Lo: 1}
	b.ReportAllocs()
	for b.Loop() {
		if k.Check(&call, c) != nil || k.Own(&call, c, own, false) != nil {
			b.Fatal("refused")
		}
		_, _ = k.Tenant(&call, c, "")
		k.Count(&call, c, 1, 0)
	}
	k.Close()
}
