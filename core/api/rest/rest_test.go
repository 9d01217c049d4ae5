package rest_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/rest"
	"github.com/mooncake-go/mooncake/core/internal/httpd"
	"github.com/mooncake-go/mooncake/core/internal/httpgolden"
	"github.com/mooncake-go/mooncake/core/master/metrics"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

var summaryPart = regexp.MustCompile(`master=\{(.*)\}, ha=`)

func TestRecordedAnswers(t *testing.T) {
	segment := model.SegmentInfo{Segment: model.Segment{Name: "127.0.0.1:12459", Size: 64 << 20}, Status: model.SegmentOK}
	for file, segments := range map[string][]model.SegmentInfo{
		"admin-idle.txt": nil, "admin-mounted.txt": {segment}, "admin-keys.txt": {segment},
	} {
		list, err := httpgolden.Read("testdata/" + file)
		require.NoError(t, err)
		require.NotEmpty(t, list)
		m := newFake()
		m.segments = segments
		for _, x := range list {
			if x.Target == "/get_all_keys" {
				m.keys = strings.Fields(x.Body)
			}
			if found := summaryPart.FindStringSubmatch(x.Body); found != nil {
				m.summary = found[1]
			}
		}
		for _, x := range list {
			if x.Target == "/api/v1/segments" {
				continue // Upstream does not have it.
			}
			t.Run(file+x.Target, func(t *testing.T) {
				w := ask(m, x.Method, x.Target)
				assert.Equal(t, x.Status, w.Code)
				assert.Equal(t, x.ContentType, w.Header().Get("Content-Type"))
				assert.Equal(t, x.Body, w.Body.String())
			})
		}
	}
}

func TestLeasesOnlyByQueryKey(t *testing.T) {
	m := newFake()
	m.keys = []string{"k"}
	for _, target := range []string{"/batch_query_keys?keys=k", "/query_key?key=k&lease=false", "/query_key?key=k&lease=0"} {
		assert.Equal(t, 200, ask(m, "GET", target).Code)
	}
	assert.Zero(t, m.leases)
	ask(m, "GET", "/query_key?key=k")
	assert.Equal(t, 1, m.leases)
}

func TestOtherAnswers(t *testing.T) {
	m := newFake()
	m.keys = []string{"a<b>&", "c", "a+b c"}
	m.segments = []model.SegmentInfo{
		{Segment: model.Segment{Name: "n:1", Size: 4 << 30}, Status: model.SegmentOK, Used: 1 << 30},
		{Segment: model.Segment{Name: "n:1", Size: 64 << 20}, Status: model.SegmentUnmounting, Used: 16 << 20},
		{Segment: model.Segment{Name: "n:2", Size: 1 << 20}, Status: model.SegmentOK, AbsentSince: time.Unix(1, 0)}, // no script knows of those
	}
	for _, c := range []struct {
		method, target string
		status         int
		body           string
	}{
		{"GET", "/debug/pprof/", 404, "404 Not Found"},
		{"GET", "/health/", 404, "404 Not Found"},
		{"GET", "/get_all_segments", 200, "n:1\n"},
		{"GET", "/query_segment?segment=n:1", 200, "n:1\nUsed(bytes): 1090519040\nCapacity(bytes) : 4362076160\n"},
		{"GET", "/batch_query_keys", 400, `{"success":false,"error":"No keys provided. Use ?keys=key1,key2,..."}`},
		{"GET", "/batch_query_keys?keys=,", 400, `{"success":false,"error":"No keys provided. Use ?keys=key1,key2,..."}`},
		{"GET", "/query_key", 400, `{"success":false,"error_code":-600,"error_message":"INVALID_PARAMS"}`},
		{"GET", "/batch_query_keys?keys=%3C%26,%3C%26", 200, `{"success":true,"data":{"<&":{"ok":false,"error":"OBJECT_NOT_FOUND",` +
			`"values":null,"disk_values":null,"local_disk_values":null,"nof_values":null}}}`},
		{"GET", "/query_key?key=a+b%20c&lease=0", 200, `{"success":true,"data":[{"size_":65536,"buffer_address_":139789964214272,` +
			`"protocol_":"tcp","transport_endpoint_":"127.0.0.1:12459"}]}`},
		{"GET", "/api/v1/segments/status?segment=n:1", 200,
			`{"success":true,"segment":"n:1","status":5,"status_name":"UNMOUNTING","error_code":0,"error_message":""}`},
		{"POST", "/api/v1/remove_all?force=true&tenant_id=default", 200, `{"success":true,"removed_count":3}`},
	} {
		t.Run(c.method+c.target, func(t *testing.T) {
			w := ask(m, c.method, c.target)
			assert.Equal(t, c.status, w.Code)
			assert.Equal(t, c.body, w.Body.String())
		})
	}
}

func TestSizesForPeople(t *testing.T) {
	m := newFake()
	m.segments = []model.SegmentInfo{{Segment: model.Segment{Size: 4 << 30}}, {Segment: model.Segment{Size: 64 << 20}}, {Segment: model.Segment{Size: 1}}}
	body := ask(m, "GET", "/get_segments_detail").Body.String()
	for _, want := range []string{`"4 GiB"`, `"0.0625 GiB"`, `"9.31323e-10 GiB"`} {
		assert.Contains(t, body, want)
	}
}

// TestWhatTheMasterIsAsked: what the parameters and bodies turn into.
func TestWhatTheMasterIsAsked(t *testing.T) {
	for _, c := range []struct {
		method, target, body string
		want                 []any
	}{
		{"POST", "/api/v1/remove_all", "", []any{model.AllTenants, false}},
		{"POST", "/api/v1/remove_all?tenant_id=team-a&force=1", "", []any{"team-a", true}},
		{"POST", "/api/v1/remove?key=%FF&force=true", "", []any{"", "\xff", true}},
		{"GET", "/api/v1/keys?regex=a+&after=%00b&limit=7&tenant_id=team-a", "", []any{"team-a", "a+", "\x00b", 7}},
		{"GET", "/api/v1/why?key=k&tenant_id=default", "", []any{"default", "k"}},
		{"POST", "/api/v1/drain_jobs", `{"segments":["a"],"bandwidth_mbps":0}`, []any{model.DrainSpec{Segments: []string{"a"}, MaxConcurrency: 4}}},
		{"POST", "/api/v1/tasks", `{"kind":"copy","key":"k","tenant_id":"team-a","targets":["a","b"]}`,
			[]any{"team-a", model.TaskSpec{Tenant: "team-a", Key: "k", Targets: []string{"a", "b"}}}},
		{"PUT", "/api/v1/tenant_quotas?tenant_id=t", `{"requested_quota_bytes":9223372036854775807}`, []any{"t", uint64(1<<63 - 1)}},
	} {
		m := full()
		w := askBody(m, c.method, c.target, c.body)
		assert.Equal(t, 200, w.Code, "%s: %s", c.target, w.Body)
		assert.Equal(t, c.want, m.asked, c.target)
	}
}

func TestErrorsOfTheMaster(t *testing.T) {
	data := map[string]string{
		"GET /query_key": "?key=k", "GET /api/v1/why": "?key=k", "POST /api/v1/remove": "?key=k",
		"GET /api/v1/segments/status": "?segment=s", "POST /api/v1/drain_jobs": "", "POST /api/v1/tasks": "",
		"GET /api/v1/drain_jobs/query": "?job_id=7-8", "POST /api/v1/drain_jobs/cancel": "?job_id=7-8", "GET /api/v1/tasks": "?task_id=4-4",
		"GET /api/v1/keys": "", "POST /api/v1/remove_all": "", "GET /api/v1/segments": "", "GET /get_segments_detail": "",
		"GET /api/v1/tenant_quotas": "", "PUT /api/v1/tenant_quotas": "?tenant_id=t", "DELETE /api/v1/tenant_quotas": "?tenant_id=t",
	}
	for code, status := range map[errs.Code]int{
		errs.InvalidParams: 400, errs.SerializeUnsupported: 400, errs.JobNotFound: 404, errs.SegmentNotFound: 404, errs.ObjectNotFound: 404, errs.TenantNotRegistered: 404,
		errs.TaskNotFound: 404, errs.UnavailableInCurrentMode: 409, errs.UnavailableInCurrentStatus: 409, errs.TenantNotEmpty: 409,
		errs.ObjectHasLease: 409, errs.TaskPendingLimitExceeded: 429, errs.NotSupported: 501, errs.Internal: 500, errs.RPCFail: 500,
	} {
		for name, q := range data {
			m := full()
			m.err = errs.New(code, "master", "the reason")
			method, path, _ := strings.Cut(name, " ")
			w := askBody(m, method, path+q, examples()[name].body)
			assert.Equal(t, status, w.Code, "%s: %s", name, w.Body)
			assert.Contains(t, w.Body.String(), fmt.Sprintf(`{"success":false,"error_code":%d,"error_message":"%s"`, code, code), name)
			assert.Equal(t, strings.HasPrefix(path, "/api/"), strings.Contains(w.Body.String(), "the reason"), name)
		}
	}
	m := newFake()
	m.err = errors.New("plain")
	assert.Equal(t, 500, ask(m, "GET", "/query_key?key=k").Code)
	assert.Equal(t, "Failed to get all segments", ask(m, "GET", "/get_all_segments").Body.String())
	m.err, m.keyErr = nil, errs.New(errs.ReplicaIsNotReady, "get", "being written")
	w := ask(m, "GET", "/query_key?key=k")
	assert.Equal(t, `404 {"success":false,"error_code":-703,"error_message":"REPLICA_IS_NOT_READY"}`, fmt.Sprint(w.Code, " ", w.Body))
	assert.Equal(t, 409, ask(m, "POST", "/api/v1/remove?key=k").Code)
}

// TestOneTenantOnly: another tenant's name must not reach the objects of the only one.
func TestOneTenantOnly(t *testing.T) {
	for _, target := range []string{"POST /api/v1/remove_all?", "POST /api/v1/remove?key=k&", "GET /api/v1/keys?", "GET /api/v1/why?key=k&"} {
		m := newFake()
		method, path, _ := strings.Cut(target, " ")
		w := ask(m, method, path+"tenant_id=other")
		assert.Equal(t, 404, w.Code, target)
		assert.Contains(t, w.Body.String(), `"error_code":-1701,"error_message":"TENANT_NOT_REGISTERED"`)
		assert.Empty(t, m.asked, target)
	}
}

func TestStriped(t *testing.T) {
	assert.Equal(t, `{"success":true,"data":[{"size_":4096,"buffer_address_":32512,"protocol_":"tcp","transport_endpoint_":"10.0.0.7:12300"},`+
		`{"size_":1024,"buffer_address_":36864,"protocol_":"tcp","transport_endpoint_":"10.0.0.7:12300"}]}`, ask(full(), "GET", "/query_key?key=page-1").Body.String())
}

// TestCopiesOnStorageTiers: they are listed beside those in memory, with the client that has them, and nowhere as memory.
func TestCopiesOnStorageTiers(t *testing.T) {
	m := newFake()
	tier := model.SegmentInfo{Segment: model.Segment{ID: model.SegmentID{Hi: 1, Lo: 2}, Name: "n:1/tier0", Size: 1 << 30, Protocol: model.ProtocolTier}, Client: model.ClientID{Hi: 7, Lo: 1<<64 - 1}, Status: model.SegmentOK}
	m.keys, m.segments = []model.Key{"k"}, []model.SegmentInfo{{Segment: model.Segment{Name: "n:1", Size: 4096}, Status: model.SegmentOK}, tier}
	m.replica = model.Replica{Part: model.Part{SegmentID: tier.ID, Segment: tier.Name, Endpoint: "10.0.0.7:4711", Protocol: model.ProtocolTier, Address: 1 << 62, Size: 4096}}
	assert.Equal(t, `{"success":true,"data":{"k":{"ok":true,"error":null,"values":[],"disk_values":null,`+
		`"local_disk_values":[{"client_id":"7-18446744073709551615","object_size":4096,"transport_endpoint":"10.0.0.7:4711"}],"nof_values":null}}}`,
		ask(m, "GET", "/batch_query_keys?keys=k").Body.String())
	assert.Equal(t, `{"success":true,"data":[]}`, ask(m, "GET", "/query_key?key=k").Body.String())
	assert.Equal(t, "n:1\n", ask(m, "GET", "/get_all_segments").Body.String())
	detail := ask(m, "GET", "/get_segments_detail").Body.String()
	assert.Contains(t, detail, `"total_segments":1`)
	assert.NotContains(t, detail, "tier")
	assert.Contains(t, ask(m, "GET", "/api/v1/segments").Body.String(), "n:1/tier0")
	m.err = errs.New(errs.UnavailableInCurrentStatus, "master", "it does not lead")
	assert.Equal(t, 409, ask(m, "GET", "/batch_query_keys?keys=k").Code)
}

func TestPagesOfKeys(t *testing.T) {
	m := newFake()
	m.keys = []string{"a\xff+ ", "b", "c"}
	var seen []string
	after := ""
	for range 3 {
		body := ask(m, "GET", "/api/v1/keys?limit=1&after="+after).Body.String()
		next := regexp.MustCompile(`"keys":\["(.*)"\],"next":"(.*)"`).FindStringSubmatch(body)
		require.NotNil(t, next, body)
		seen, after = append(seen, next[1]), next[2]
	}
	assert.Equal(t, []string{`a\ufffd+ `, "b", "c"}, seen)
	assert.Equal(t, `{"success":true,"data":{"keys":[],"next":null}}`, ask(m, "GET", "/api/v1/keys?after="+after).Body.String())
}

func TestStandby(t *testing.T) {
	status := metrics.Status{Role: "standby", State: "catching_up", Leader: "10.0.0.1:50051", View: 7}
	h := rest.NewHandler(full(), rest.Options{Status: func() metrics.Status { return status }})
	get := func(method, path string) string {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		return fmt.Sprint(w.Code, " ", w.Body)
	}
	assert.Equal(t, `200 {"status":"ok","role":"standby","ha_state":"catching_up","service_ready":false,"leader_address":"10.0.0.1:50051","view_version":7}`, get("GET", "/health"))
	assert.Equal(t, "200 standby", get("GET", "/role"))
	assert.Equal(t, "200 catching_up", get("GET", "/ha_status"))
	assert.Equal(t, `200 {"present":true,"leader_address":"10.0.0.1:50051","view_version":7}`, get("GET", "/leader"))
	assert.Contains(t, get("GET", "/metrics/summary"), "200 role=standby, state=catching_up, service_ready=false, master={")
	for _, r := range rest.Routes() {
		switch answer := get(r.Method, r.Path); {
		case !r.Data:
			assert.True(t, strings.HasPrefix(answer, "200 "), r.Path)
		case r.Path == "/batch_query_keys":
			assert.Equal(t, `503 {"success":false,"error":"service plane is not active"}`, answer)
		default:
			assert.Equal(t, `503 {"success":false,"error_code":-1011,"error_message":"service plane is not active"}`, answer, r.Path)
		}
	}
}

// endless has keys as long as a client reads them.
type endless struct {
	*fake
	walked  int
	stopped chan struct{}
}

func (m *endless) WalkKeys(yield func(model.Key) bool) {
	defer close(m.stopped)
	for yield(fmt.Sprintf("key-%d", m.walked)) {
		m.walked++
	}
}

// TestKeysAreStreamed reads the start of an endless list and goes away.
func TestKeysAreStreamed(t *testing.T) {
	m := &endless{fake: newFake(), stopped: make(chan struct{})}
	assert.Equal(t, 200, ask(m, "HEAD", "/get_all_keys").Code, "HEAD does not walk")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := httpd.New(rest.NewHandler(m, rest.Options{}), httpd.Options{})
	s.Start(ln)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + ln.Addr().String() + "/get_all_keys")
	require.NoError(t, err)
	first := make([]byte, 12)
	_, err = io.ReadFull(resp.Body, first)
	require.NoError(t, err)
	assert.Equal(t, "key-0\nkey-1\n", string(first))
	resp.Body.Close()
	<-m.stopped
	require.NoError(t, s.Stop(t.Context()))
}
