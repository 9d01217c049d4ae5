package admin_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/cli"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/clitest"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	backend "github.com/mooncake-go/mooncake/core/ha/etcd"
	"github.com/mooncake-go/mooncake/core/metadata/storetest/etcdserver"
)

// adminPort answers with what was recorded of the real one (docs/admin-http.md has the
// same), and notes what it was asked.
type adminPort struct {
	answers map[string][]string // by method and path; the last one stays
	asked   []string
}

func (p *adminPort) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	p.asked = append(p.asked, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Method, r.URL.RequestURI(), body)))
	key := r.Method + " " + r.URL.Path
	list := p.answers[key]
	if len(list) == 0 {
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, `{"success":false,"error_code":-704,"error_message":"OBJECT_NOT_FOUND","detail":"master: why: OBJECT_NOT_FOUND: nothing here"}`)
		return
	}
	io.WriteString(w, list[0])
	if len(list) > 1 {
		p.answers[key] = list[1:]
	}
}

const (
	whyReadable = `{"success":true,"data":{"key":"page-1","tenant_id":"default","fate":"readable","when":"2026-05-04T03:02:01.5Z","reason":"it is there",
"remembers_since":"2026-05-04T02:02:01.5Z","object":{"size_bytes":5120,"checksum":"crc32c:0x0000ab12","data_type":1,"group":"g","creator":"0-5","lease_left_ms":4500,
"probe_left_ms":0,"soft_pin_left_ms":60000,"hard_pin":true,"last_reader":"0-6","last_read":"2026-05-04T03:02:02.5Z","copying":true,"replicas":[{"id":9,"status":"COMPLETE",
"size_bytes":5120,"parts":[{"segment":"n:1","segment_id":"1-2","endpoint":"n:1","protocol":"tcp","address":"0x7f00","offset":0,"size_bytes":4096},
{"segment":"n:2","segment_id":"1-3","endpoint":"n:2","protocol":"tcp","address":"0x9000","offset":4096,"size_bytes":1024}]}]}}}`
	whyTier = `{"success":true,"data":{"key":"page-3","fate":"readable","reason":"it is there","object":{"size_bytes":5120,"creator":"0-5","replicas":[{"id":9,"status":"COMPLETE",
"size_bytes":5120,"parts":[{"segment":"n:1/tier0","segment_id":"1-9","endpoint":"n:77","protocol":"tier","address":"0x4000000000000000","offset":0,"size_bytes":5120}]}]}}}`
	whyEvicted = `{"success":true,"data":{"key":"page-2","tenant_id":"","fate":"evicted","when":"2026-05-04T03:02:01Z","reason":"it made space for others",
"remembers_since":"2026-05-04T02:00:00Z","object":null}}`
	segments = `{"success":true,"data":[{"name":"n:1","size_bytes":4294967296,"used_bytes":1073741824,"unfinished_bytes":2048,"held_bytes":512,"adopted_objects":7,"keeper":"systemd","protocol":"tcp","weight":0.5,
"status":"GRACEFULLY_UNMOUNTING","deadline":"2026-05-04T03:02:01.5Z"}]}`
	tier         = `{"name":"n:1/tier0","size_bytes":1099511627776,"used_bytes":549755813888,"unfinished_bytes":1024,"held_bytes":4096,"adopted_objects":9,"protocol":"tier","weight":1,"status":"OK","absent_since":"2026-05-04T03:02:01Z"}`
	memory       = `{"name":"n:1","size_bytes":1024,"protocol":"tcp","status":"OK"}`
	jobRunning   = `{"success":true,"job_id":"7-8","status_name":"RUNNING","segments":["n:1"],"succeeded_units":10,"active_units":4,"blocked_units":2,"migrated_bytes":40960}`
	jobFailed    = `{"success":true,"job_id":"7-8","status_name":"FAILED","segments":["n:1"],"failed_units":1,"message":"no space anywhere"}`
	jobSucceeded = `{"success":true,"job_id":"7-8","status_name":"SUCCEEDED","segments":["n:1"],"succeeded_units":16,"migrated_bytes":65536}`
	quota        = `{"tenant_id":"team-a","requested_quota_bytes":1073741824,"effective_quota_bytes":536870912,"charged_bytes":1048576,"has_explicit_policy":true,"over_quota":true}`
	figures      = `{"success":true,"data":{"role":"leader","state":"serving","service_ready":true,"now":{"used_bytes":1024,"capacity_bytes":4096,"keys":2},
"total":{"keys_read":4,"keys_hit":3,"evicted_keys":7,"evicted_bytes":2048}}}`
	task = `{"success":true,"data":{"task_id":"4-4","kind":"move","key":"page-1","source":"n:1","targets":["n:2"],"status":"FAILED",
"created":"2026-05-04T03:02:01Z","updated":"2026-05-04T03:02:01Z","assigned_client":"0-3","message":"processing timeout"}}`
)

func TestAdminVerbs(t *testing.T) {
	for _, c := range []struct {
		args    string
		answers map[string][]string
		asked   string // the last request
		code    int
		out     []string
		stderr  string
	}{
		{args: "why page-1 --tenant default", answers: map[string][]string{"GET /api/v1/why": {whyReadable}}, asked: "GET /api/v1/why?key=page-1&tenant_id=default", out: []string{
			`"page-1" of tenant "default": readable, at 2026-05-04T03:02:01Z (`, "  it is there\n", "  size       5.00 KB (5120 bytes), checksum crc32c:0x0000ab12\n",
			"  protected  by a hard pin, until it is removed; by a read, for another 4.5s; by a soft pin, for another 1m0s\n", `  group      "g": read and evicted together`,
			"  writer     client 0-5\n", "  last read  client 0-6, at 2026-05-04T03:02:02Z (", "  a copy or move of it is in progress\n", "  copy 1     COMPLETE, 5.00 KB\n",
			`               "n:2" at 0x9000, 1.00 KB from byte 4096 (tcp)`}},
		{args: "why page-3", answers: map[string][]string{"GET /api/v1/why": {whyTier}}, asked: "GET /api/v1/why?key=page-3",
			out: []string{"  copy 1     COMPLETE, 5.00 KB\n               storage tier \"tier0\" of node \"n:1\", 5.00 KB\n"}},
		{args: "why page-2", answers: map[string][]string{"GET /api/v1/why": {whyEvicted}}, asked: "GET /api/v1/why?key=page-2",
			out: []string{`"page-2": evicted, at 2026-05-04T03:02:01Z (`, "  it made space for others\n", "  the master remembers what was removed since 2026-05-04T02:00:00Z\n"}},
		{args: "why nothing", asked: "GET /api/v1/why?key=nothing", code: command.ExitNotFound, stderr: "mooncake: OBJECT_NOT_FOUND: master: why: nothing here\n"},
		{args: "admin segments", answers: map[string][]string{"GET /api/v1/segments": {segments}}, asked: "GET /api/v1/segments",
			out: []string{"SEGMENT  STATUS                 USED     SIZE     FULL   WRITING  HELD   ADOPTED  KEPT BY  WEIGHT  PROTOCOL  UNTIL\n", `"n:1"    GRACEFULLY_UNMOUNTING  1.00 GB  4.00 GB  25.0%  2.00 KB  512 B  7        systemd  0.50    tcp       2026-05-04T03:02:01Z`}},
		{args: "admin segments", answers: map[string][]string{"GET /api/v1/segments": {`{"success":true,"data":[{"name":"n:2","status":"OK","absent_since":"2026-05-04T03:02:01Z"}]}`}},
			asked: "GET /api/v1/segments", out: []string{`"n:2"    ABSENT  `}},
		{args: "admin segments", answers: map[string][]string{"GET /api/v1/segments": {`{"success":true,"data":[]}`}}, asked: "GET /api/v1/segments", out: []string{"no segment is mounted"}},
		{args: "admin segments", answers: map[string][]string{"GET /api/v1/segments": {`{"success":true,"data":[` + tier + "," + memory + `]}`}}, asked: "GET /api/v1/segments",
			out: []string{"UNTIL\n\"n:1\"    OK      0 B   1.00 KB", "\n\nTIER         NODE   STATUS  USED", "\n\"n:1/tier0\"  "}},
		{args: "admin tiers", answers: map[string][]string{"GET /api/v1/segments": {`{"success":true,"data":[` + memory + "," + tier + `]}`}}, asked: "GET /api/v1/segments",
			out: []string{"TIER         NODE   STATUS  USED       SIZE     FULL   WRITING  HELD     ADOPTED  ABSENT SINCE\n" +
				"\"n:1/tier0\"  \"n:1\"  ABSENT  512.00 GB  1.00 TB  50.0%  1.00 KB  4.00 KB  9        2026-05-04T03:02:01Z\n"}},
		{args: "admin tiers", answers: map[string][]string{"GET /api/v1/segments": {`{"success":true,"data":[` + memory + `]}`}}, asked: "GET /api/v1/segments",
			out: []string{"no storage tier is mounted"}},
		{args: "admin summary", answers: map[string][]string{"GET /api/v1/summary": {`{"success":true,"data":{"now":{"tier_used_bytes":1024,"tier_capacity_bytes":4096}}}`}}, asked: "GET /api/v1/summary",
			out: []string{"tiers      1.00 KB of 4.00 KB (25.0%)\n"}},
		{args: "admin summary", answers: map[string][]string{"GET /api/v1/summary": {figures}}, asked: "GET /api/v1/summary",
			out: []string{"leader, serving\n", "memory     1.00 KB of 4.00 KB (25.0%)", "reads      4 keys, 75.0% found", "evicted    7 objects, 2.00 KB"}},
		{args: "admin drain start n:1 --to n:2 --moves 8", answers: map[string][]string{"POST /api/v1/drain_jobs": {`{"success":true,"job_id":"7-8"}`}},
			asked: `POST /api/v1/drain_jobs {"segments":["n:1"],"target_segments":["n:2"],"max_concurrency":8}`, out: []string{"job 7-8; follow it: mooncake admin drain status 7-8 --wait"}},
		{args: "admin drain status 7-8", answers: map[string][]string{"GET /api/v1/drain_jobs/query": {jobRunning}}, asked: "GET /api/v1/drain_jobs/query?job_id=7-8",
			out: []string{"job 7-8: RUNNING\n", "moved     10 objects, 40.00 KB\n", "in progress 4, blocked 2 (being read, written or copied, or without space), failed 0\n"}},
		{args: "admin drain status 7-8 --wait", answers: map[string][]string{"GET /api/v1/drain_jobs/query": {jobRunning, jobSucceeded}}, asked: "GET /api/v1/drain_jobs/query?job_id=7-8",
			out: []string{"job 7-8: SUCCEEDED\n"}},
		{args: "admin drain start n:1 --wait", answers: map[string][]string{"POST /api/v1/drain_jobs": {`{"success":true,"job_id":"7-8"}`}, "GET /api/v1/drain_jobs/query": {jobFailed}},
			asked: "GET /api/v1/drain_jobs/query?job_id=7-8", code: command.ExitFailure, out: []string{"job 7-8: FAILED\n", "  no space anywhere\n"}},
		{args: "admin drain cancel 7-8", answers: map[string][]string{"POST /api/v1/drain_jobs/cancel": {`{"success":true}`}}, asked: "POST /api/v1/drain_jobs/cancel?job_id=7-8", out: []string{"canceled\n"}},
		{args: "admin tenants list", answers: map[string][]string{"GET /api/v1/tenant_quotas": {`{"success":true,"data":[` + quota + `]}`}}, asked: "GET /api/v1/tenant_quotas",
			out: []string{`"team-a"  1.00 GB  512.00 MB  1.00 MB  over its quota`}},
		{args: "admin tenants set team-a 1GB", answers: map[string][]string{"PUT /api/v1/tenant_quotas": {`{"success":true,"data":` + quota + `}`}},
			asked: `PUT /api/v1/tenant_quotas?tenant_id=team-a {"requested_quota_bytes":1073741824}`, out: []string{`"team-a"`}},
		{args: "admin tenants delete team-a", answers: map[string][]string{"DELETE /api/v1/tenant_quotas": {`{"success":true,"data":null}`}}, asked: "DELETE /api/v1/tenant_quotas?tenant_id=team-a",
			out: []string{`deleted "team-a"`}},
		{args: "admin tasks move page-1 --from n:1 --to n:2", answers: map[string][]string{"POST /api/v1/tasks": {`{"success":true,"data":{"task_id":"4-4"}}`}},
			asked: `POST /api/v1/tasks {"kind":"move","key":"page-1","source":"n:1","targets":["n:2"]}`, out: []string{"task 4-4; follow it: mooncake admin tasks status 4-4"}},
		{args: "admin tasks copy page-1 --to n:2,n:3 --tenant t", answers: map[string][]string{"POST /api/v1/tasks": {`{"success":true,"data":{"task_id":"4-4"}}`}},
			asked: `POST /api/v1/tasks {"kind":"copy","key":"page-1","tenant_id":"t","targets":["n:2","n:3"]}`},
		{args: "admin tasks status 4-4", answers: map[string][]string{"GET /api/v1/tasks": {task}}, asked: "GET /api/v1/tasks?task_id=4-4",
			out: []string{"task 4-4: FAILED\n", `move "page-1" from "n:1" to ["n:2"]`, "processing timeout"}},
		{args: "admin remove-all --yes --force", answers: map[string][]string{"POST /api/v1/remove_all": {`{"success":true,"removed_count":3}`}}, asked: "POST /api/v1/remove_all?force=true",
			out: []string{"removed 3\n"}},
		{args: "admin remove-all", code: command.ExitUsage, stderr: "--yes"},
		{args: "admin segments -o yaml", code: command.ExitUsage, stderr: "yaml"},
		{args: "admin segments --timeout 0s", code: command.ExitUsage, stderr: "--timeout"},
		{args: "admin tenants set team-a lots", code: command.ExitUsage, stderr: "lots"},
		{args: "admin tenants set team-a", code: command.ExitUsage, stderr: "a tenant and a size"},
		{args: "admin drain start", code: command.ExitUsage, stderr: "one segment or more"},
		{args: "admin nosuch", code: command.ExitUsage, stderr: "nosuch"},
		{args: "why", code: command.ExitUsage, stderr: "one key"},
	} {
		t.Run(c.args, func(t *testing.T) {
			port := &adminPort{answers: c.answers}
			srv := httptest.NewServer(port)
			defer srv.Close()
			e, stdout, stderr := clitest.New()
			args := strings.Fields("mooncake " + c.args)
			if !strings.Contains(c.args, "nosuch") {
				args = append(args, poolOf(t, srv.Listener.Addr())...)
			}
			assert.Equal(t, c.code, cli.Run(e, args), "%s %s", stdout, stderr)
			for _, part := range c.out {
				assert.Contains(t, stdout.String(), part)
			}
			assert.Contains(t, stderr.String(), c.stderr)
			last := ""
			if len(port.asked) > 0 {
				last = port.asked[len(port.asked)-1]
			}
			assert.Equal(t, c.asked, last)
			if c.code != 0 || len(c.out) == 0 {
				return
			}
			port.answers = c.answers
			stdout.Reset()
			cli.Run(e, append(args, "-o", "json"))
			var v any
			require.NoError(t, json.Unmarshal(stdout.Bytes(), &v), stdout)
		})
	}
}

// TestTiersOnly: 'admin tiers -o json' has the tiers and no memory, and is a list where there are none.
func TestTiersOnly(t *testing.T) {
	for answer, want := range map[string]int{memory + "," + tier: 1, memory: 0} {
		port := &adminPort{answers: map[string][]string{"GET /api/v1/segments": {`{"success":true,"data":[` + answer + `]}`}}}
		srv := httptest.NewServer(port)
		e, stdout, stderr := clitest.New()
		assert.Equal(t, 0, cli.Run(e, append([]string{"mooncake", "admin", "tiers", "-o", "json"}, poolOf(t, srv.Listener.Addr())...)), stderr)
		srv.Close()
		var got []map[string]any
		require.NoError(t, json.Unmarshal(stdout.Bytes(), &got))
		require.NotNil(t, got)
		require.Len(t, got, want)
		for _, x := range got {
			require.Equal(t, "tier", x["protocol"])
		}
	}
}

func TestNobodyProtectsIt(t *testing.T) {
	port := &adminPort{answers: map[string][]string{"GET /api/v1/why": {`{"success":true,"data":{"key":"k","fate":"readable","object":{"creator":"0-5"}}}`}}}
	srv := httptest.NewServer(port)
	defer srv.Close()
	e, stdout, _ := clitest.New()
	assert.Equal(t, 0, cli.Run(e, append([]string{"mooncake", "why", "k"}, poolOf(t, srv.Listener.Addr())...)))
	assert.Contains(t, stdout.String(), "protected  by nothing")
	assert.Contains(t, stdout.String(), "last read  never")
}

func TestAdminWithoutMaster(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	e, _, stderr := clitest.New()
	assert.Equal(t, command.ExitFailure, cli.Run(e, append([]string{"mooncake", "why", "k"}, poolOf(t, srv.Listener.Addr())...)))
	assert.Contains(t, stderr.String(), "is that the admin port of a master?")
	srv.Close()
	e, _, stderr = clitest.New() // No process listens on port 1; another may have taken the closed port by now.
	assert.Equal(t, command.ExitFailure, cli.Run(e, []string{"mooncake", "admin", "segments", "--metrics_port", "1"}))
	assert.Contains(t, stderr.String(), "is the master running")
	assert.Equal(t, command.ExitUsage, cli.Run(e, []string{"mooncake", "admin", "segments", "--master", "nowhere"}))
}

// TestTheEarlierFlagStillWorks, and says what takes its place, beside the answer.
func TestTheEarlierFlagStillWorks(t *testing.T) {
	port := &adminPort{answers: map[string][]string{"GET /api/v1/why": {`{"success":true,"data":{"key":"k","fate":"readable","object":{"creator":"0-5"}}}`}}}
	srv := httptest.NewServer(port)
	defer srv.Close()
	e, stdout, stderr := clitest.New()
	assert.Equal(t, command.ExitOK, cli.Run(e, []string{"mooncake", "why", "k", "--admin_address", srv.Listener.Addr().String()}))
	assert.NotContains(t, stdout.String(), "deprecated")
	assert.Contains(t, stderr.String(), "name the pool with --master")
}

// poolOf names the pool whose admin port has this address.
func poolOf(t *testing.T, admin net.Addr) []string {
	host, port, err := net.SplitHostPort(admin.String())
	require.NoError(t, err)
	return []string{"--master", host + ":50051", "--metrics_port", port}
}

// TestTheLeaderInEtcd: the verbs ask the host of the master that leads, and say so if none does.
func TestTheLeaderInEtcd(t *testing.T) {
	port := &adminPort{answers: map[string][]string{"GET /api/v1/why": {whyReadable}}}
	srv := httptest.NewServer(port)
	defer srv.Close()
	_, admin, err := net.SplitHostPort(srv.Listener.Addr().String())
	require.NoError(t, err)
	etcd := etcdserver.New(t)
	why := func() (int, string) {
		e, stdout, stderr := clitest.New()
		code := cli.Run(e, []string{"mooncake", "why", "page-1", "--master", "etcd://" + etcd.Address, "--cluster_id", "blue", "--metrics_port", admin})
		return code, stdout.String() + stderr.String()
	}
	code, out := why()
	require.Equal(t, command.ExitFailure, code)
	require.Contains(t, out, "no master leads cluster blue")
	b, err := backend.New("etcd://"+etcd.Address, "blue", backend.Options{})
	require.NoError(t, err)
	defer b.Close()
	l, err := b.Acquire(t.Context(), "127.0.0.1:50051")
	require.NoError(t, err)
	code, out = why()
	require.Equal(t, command.ExitOK, code, out)
	require.Len(t, port.asked, 1)
	require.NoError(t, l.Resign(t.Context()))
}
