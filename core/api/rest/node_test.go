package rest_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"

	"github.com/mooncake-go/mooncake/core/api/rest"
)

type fakeNode struct{ mounted bool }

func (n *fakeNode) Mounted() bool { return n.mounted }
func (n *fakeNode) Size() uint64  { return 4096 }

func TestNodePort(t *testing.T) {
	var node *fakeNode
	reg := prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "mooncake_test_total", Help: "A test."}))
	h := rest.NewNodeHandler(func() rest.Node {
		if node == nil {
			return nil
		}
		return node
	}, reg, nil, nil)
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	expect := func(path string, code int, body string) {
		t.Helper()
		gotCode, gotBody := get(path)
		assert.Equal(t, code, gotCode)
		assert.Equal(t, body, gotBody)
	}
	expect("/health", 503, `{"status":"not_initialized","code":1}`)
	expect("/metrics/summary", 503, "client not initialized")
	node = &fakeNode{}
	expect("/health", 503, `{"status":"master_unreachable","code":2}`)
	node.mounted = true
	expect("/health", 200, `{"status":"healthy","code":0}`)
	expect("/metrics/summary", 503, "metrics not available")
	read := prometheus.NewCounter(prometheus.CounterOpts{Name: "mooncake_transfer_read_bytes", Help: "A test."})
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "mooncake_client_rpc_count", Help: "A test."}, []string{"rpc_name"})
	reg.MustRegister(read, calls)
	read.Add(1e12)
	calls.WithLabelValues("Ping").Add(2)
	calls.WithLabelValues("PutStart").Add(3)
	expect("/metrics/summary", 200, "role=store, mounted=true, segment_bytes=4096, read_bytes=1000000000000, write_bytes=0, rpc_calls=5")
	code, body := get("/metrics")
	assert.Equal(t, 200, code)
	assert.Contains(t, body, "mooncake_test_total 0")
	code, _ = get("/nothing")
	assert.Equal(t, 404, code)
}
