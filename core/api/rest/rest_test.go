package rest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/core/api/rest"
	"github.com/mooncake-go/mooncake/core/internal/httpgolden"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixedMaster is a master in one fixed state.
type fixedMaster struct {
	keys     []model.Key
	segments []model.SegmentInfo
	summary  string
	registry *prometheus.Registry
	err      error
	leases   int
	forced   bool
}

func (m *fixedMaster) GetReplicas(_ context.Context, keys []model.Key) ([]model.Result[model.Object], error) {
	m.leases++
	return m.PeekReplicas(keys), m.err
}

func (m *fixedMaster) PeekReplicas(keys []model.Key) []model.Result[model.Object] {
	out := make([]model.Result[model.Object], len(keys))
	for i, k := range keys {
		out[i].Err = errs.New(errs.ObjectNotFound, "get", "no %q", k)
		for _, have := range m.keys {
			if have == k {
				out[i] = model.Result[model.Object]{Value: model.Object{Size: 65536, Replicas: []model.Replica{
					{Size: 65536, Address: 139789964214272, Protocol: "tcp", Endpoint: "127.0.0.1:12459"},
				}}}
			}
		}
	}
	return out
}

func (m *fixedMaster) WalkKeys(yield func(model.Key) bool) {
	for _, k := range m.keys {
		if !yield(k) {
			return
		}
	}
}

func (m *fixedMaster) Segments(context.Context) ([]model.SegmentInfo, error) {
	return m.segments, m.err
}

func (m *fixedMaster) RemoveAll(_ context.Context, force bool) (int, error) {
	m.forced = force
	n := len(m.keys)
	m.keys = nil
	return n, m.err
}

func (m *fixedMaster) Summary() string { return m.summary }

func (m *fixedMaster) Metrics() prometheus.Gatherer { return m.registry }

func newFixedMaster() *fixedMaster { return &fixedMaster{registry: prometheus.NewRegistry()} }

func ask(m rest.Master, method, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	rest.NewHandler(m, rest.Options{}).ServeHTTP(w, httptest.NewRequest(method, target, nil))
	return w
}

var summaryPart = regexp.MustCompile(`master=\{(.*)\}, ha=`)

func TestRecordedAnswers(t *testing.T) {
	segment := model.SegmentInfo{Segment: model.Segment{Name: "127.0.0.1:12459", Size: 64 << 20}, Status: model.SegmentOK}
	for file, segments := range map[string][]model.SegmentInfo{
		"admin-idle.txt": nil, "admin-mounted.txt": {segment}, "admin-keys.txt": {segment},
	} {
		list, err := httpgolden.Read("testdata/" + file)
		require.NoError(t, err)
		require.NotEmpty(t, list)
		m := newFixedMaster()
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
	m := newFixedMaster()
	m.keys = []string{"k"}
	ask(m, "GET", "/batch_query_keys?keys=k")
	assert.Zero(t, m.leases)
	ask(m, "GET", "/query_key?key=k")
	assert.Equal(t, 1, m.leases)
}

func TestOtherAnswers(t *testing.T) {
	m := newFixedMaster()
	m.keys = []string{"a<b>&", "c"}
	m.segments = []model.SegmentInfo{
		{Segment: model.Segment{
			ID: model.UUID{Hi: 1, Lo: 2}, Name: "n:1", Base: 0x7f00, Size: 4 << 30, Endpoint: "e:1", Protocol: "tcp",
		}, Client: model.UUID{Lo: 3}, Status: model.SegmentOK, Used: 1 << 30},
		{Segment: model.Segment{Name: "n:1", Size: 64 << 20}, Status: model.SegmentUnmounting, Used: 16 << 20},
	}
	for _, c := range []struct {
		method, target string
		status         int
		body           string
	}{
		{"GET", "/ha_status", 200, "serving"},
		{"POST", "/health", 404, "404 Not Found"},
		{"GET", "/api/v1/remove_all", 404, "404 Not Found"},
		{"GET", "/debug/pprof/", 404, "404 Not Found"},
		{"GET", "/get_all_segments", 200, "n:1\n"},
		{"GET", "/query_segment?segment=n:1", 200, "n:1\nUsed(bytes): 1090519040\nCapacity(bytes) : 4362076160\n"},
		{"GET", "/batch_query_keys", 400, `{"success":false,"error":"No keys provided. Use ?keys=key1,key2,..."}`},
		{"GET", "/batch_query_keys?keys=,", 400, `{"success":false,"error":"No keys provided. Use ?keys=key1,key2,..."}`},
		{"GET", "/query_key", 400, `{"success":false,"error_code":-600,"error_message":"INVALID_PARAMS"}`},
		{"GET", "/batch_query_keys?keys=%3C%26,%3C%26", 200, `{"success":true,"data":{"<&":{"ok":false,"error":"OBJECT_NOT_FOUND",` +
			`"values":null,"disk_values":null,"local_disk_values":null,"nof_values":null}}}`},
		{"GET", "/get_segments_detail", 200, `{"total_segments":2,"segments":[{"segment_name":"n:1","segment_id":"1-2","client_id":"0-3",` +
			`"base_address":"0x7f00","size_bytes":4294967296,"size_human":"4 GiB","te_endpoint":"e:1","protocol":"tcp","status":"OK",` +
			`"allocator_used_bytes":1073741824,"allocator_capacity_bytes":4294967296,"allocator_usage_percent":25},` +
			`{"segment_name":"n:1","segment_id":"0-0","client_id":"0-0","base_address":"0x0","size_bytes":67108864,"size_human":"64 MiB",` +
			`"te_endpoint":"","protocol":"","status":"UNMOUNTING","allocator_used_bytes":16777216,"allocator_capacity_bytes":67108864,` +
			`"allocator_usage_percent":25}]}`},
		{"POST", "/api/v1/remove_all?force=maybe", 400, `{"success":false,"error_code":-600,"error_message":"INVALID_PARAMS"}`},
		{"POST", "/api/v1/remove_all?tenant_id=other", 404, `{"success":false,"error_code":-1701,"error_message":"TENANT_NOT_REGISTERED"}`},
		{"POST", "/api/v1/remove_all?force=true&tenant_id=default", 200, `{"success":true,"removed_count":2}`},
		{"POST", "/api/v1/remove_all", 200, `{"success":true,"removed_count":0}`},
	} {
		t.Run(c.method+c.target, func(t *testing.T) {
			w := ask(m, c.method, c.target)
			assert.Equal(t, c.status, w.Code)
			assert.Equal(t, c.body, w.Body.String())
		})
	}
	assert.False(t, m.forced)
}

func TestFailingMaster(t *testing.T) {
	m := newFixedMaster()
	m.err = errs.New(errs.UnavailableInCurrentStatus, "master", "standby")
	for _, target := range []string{"GET /query_key?key=k", "GET /get_segments_detail", "POST /api/v1/remove_all"} {
		method, path, _ := strings.Cut(target, " ")
		w := ask(m, method, path)
		assert.Equal(t, 409, w.Code, target)
		assert.Contains(t, w.Body.String(), `"error_code":-1010`)
	}
	assert.Equal(t, 500, ask(m, "GET", "/get_all_segments").Code)
	m.err = errors.New("plain")
	assert.Equal(t, 500, ask(m, "GET", "/query_key?key=k").Code)
}

func TestMetrics(t *testing.T) {
	m := newFixedMaster()
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "master_key_count", Help: "Total keys"})
	m.registry.MustRegister(g)
	g.Set(51)
	w := ask(m, "GET", "/metrics")
	assert.Equal(t, "text/plain; version=0.0.4", w.Header().Get("Content-Type"))
	assert.Equal(t, "# HELP master_key_count Total keys\n# TYPE master_key_count gauge\nmaster_key_count 51\n", w.Body.String())
}

func TestProfilingOnlyWhenAsked(t *testing.T) {
	h := rest.NewHandler(newFixedMaster(), rest.Options{Profiling: true})
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/goroutine", "/debug/pprof/cmdline"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		assert.Equal(t, 200, w.Code, path)
	}
}

// endlessMaster has keys as long as somebody reads them.
type endlessMaster struct {
	*fixedMaster
	walked  int
	stopped chan struct{}
}

func (m *endlessMaster) WalkKeys(yield func(model.Key) bool) {
	defer close(m.stopped)
	for yield(fmt.Sprintf("key-%d", m.walked)) {
		m.walked++
	}
}

// TestKeysAreStreamed reads the start of an endless list and goes away.
func TestKeysAreStreamed(t *testing.T) {
	m := &endlessMaster{fixedMaster: newFixedMaster(), stopped: make(chan struct{})}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := rest.NewServer(rest.NewHandler(m, rest.Options{}), nil)
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
