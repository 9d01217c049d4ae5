package k8s_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/core/ha"
	"github.com/mooncake-go/mooncake/core/ha/hatest"
	"github.com/mooncake-go/mooncake/core/ha/k8s"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// apiServer is the part of an API server that leader election uses: objects with resource versions, which a
// PUT has to name, under the paths and with the status codes of the documentation of Kubernetes.
type apiServer struct {
	mu       sync.Mutex
	objects  map[string]map[string]any
	version  int
	refuse   bool
	requests []string
}

const base = "/apis/coordination.k8s.io/v1/namespaces/"

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r.Method+" "+r.URL.Path)
	status := func(code int, reason string) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "message": reason, "code": code})
	}
	if r.Header.Get("Authorization") != "Bearer secret" || s.refuse {
		status(http.StatusForbidden, "leases.coordination.k8s.io is forbidden")
		return
	}
	var in map[string]any
	if r.Method != http.MethodGet {
		text, _ := io.ReadAll(r.Body)
		if json.Unmarshal(text, &in) != nil {
			status(http.StatusBadRequest, "not JSON")
			return
		}
	}
	path := strings.TrimPrefix(r.URL.Path, base)
	if r.Method == http.MethodPost {
		path += "/" + in["metadata"].(map[string]any)["name"].(string)
	}
	old := s.objects[path]
	switch {
	case r.Method == http.MethodPost && old != nil:
		status(http.StatusConflict, "already exists")
		return
	case r.Method != http.MethodPost && old == nil:
		status(http.StatusNotFound, "not found")
		return
	case r.Method == http.MethodPut && in["metadata"].(map[string]any)["resourceVersion"] != old["metadata"].(map[string]any)["resourceVersion"]:
		status(http.StatusConflict, "the object has been modified")
		return
	case r.Method != http.MethodGet:
		s.version++
		in["metadata"].(map[string]any)["resourceVersion"] = fmt.Sprint(s.version)
		s.objects[path] = in
	}
	_ = json.NewEncoder(w).Encode(s.objects[path])
}

func serve(t *testing.T) (*apiServer, k8s.API) {
	s := &apiServer{objects: map[string]map[string]any{}}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	return s, k8s.API{URL: srv.URL, Token: func() (string, error) { return "secret", nil }}
}

func open(t *testing.T, api k8s.API, lease string) *k8s.Backend {
	b, err := k8s.New(lease, k8s.Options{API: api})
	require.NoError(t, err)
	t.Cleanup(b.Close)
	return b
}

func TestConformance(t *testing.T) {
	_, api := serve(t)
	var leases atomic.Int32
	hatest.Run(t, func(t *testing.T) func() ha.Backend {
		lease := fmt.Sprint("prod/l", leases.Add(1))
		return func() ha.Backend { return open(t, api, lease) }
	})
}

// TestTheLease: what upstream's masters and kubectl read.
func TestTheLease(t *testing.T) {
	s, api := serve(t)
	l, err := open(t, api, "k8s://prod/mooncake").Acquire(t.Context(), "10.0.0.1:50051")
	require.NoError(t, err)
	s.mu.Lock()
	text, err := json.Marshal(s.objects["prod/leases/mooncake"])
	s.mu.Unlock()
	require.NoError(t, err)
	var got struct {
		APIVersion, Kind string
		Spec             struct {
			HolderIdentity         string
			LeaseDurationSeconds   int
			AcquireTime, RenewTime string
			LeaseTransitions       uint64
		}
	}
	require.NoError(t, json.Unmarshal(text, &got))
	require.Equal(t, "coordination.k8s.io/v1 Lease", got.APIVersion+" "+got.Kind)
	require.Equal(t, "10.0.0.1:50051", got.Spec.HolderIdentity)
	require.Equal(t, 2, got.Spec.LeaseDurationSeconds)
	require.Equal(t, l.View().Version, got.Spec.LeaseTransitions)
	require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`, got.Spec.RenewTime)
	require.NoError(t, l.Resign(t.Context()))
}

// TestAForeignHolder: a lease of upstream's, and one that is over.
func TestAForeignHolder(t *testing.T) {
	s, api := serve(t)
	put := func(renewed string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.objects["default/leases/l"] = map[string]any{
			"metadata": map[string]any{"name": "l", "namespace": "default", "resourceVersion": "7"},
			"spec":     map[string]any{"holderIdentity": "10.0.0.9:50051", "leaseDurationSeconds": 5, "renewTime": renewed, "leaseTransitions": 3},
		}
	}
	b := open(t, api, "l")
	put("2999-01-01T00:00:00.000000Z")
	v, err := b.View(t.Context())
	require.NoError(t, err)
	require.Equal(t, ha.View{Address: "10.0.0.9:50051", Version: 3, Foreign: true}, v)
	put("2001-01-01T00:00:00.000000Z")
	v, err = b.View(t.Context())
	require.NoError(t, err)
	require.False(t, v.Led())
	l, err := b.Acquire(t.Context(), "10.0.0.1:50051")
	require.NoError(t, err)
	require.EqualValues(t, 4, l.View().Version)
	require.NoError(t, l.Resign(t.Context()))
}

func TestErrors(t *testing.T) {
	s, api := serve(t)
	for _, bad := range []string{"", "a/b/c", "A/b", "k8s://"} {
		_, err := k8s.New(bad, k8s.Options{API: api})
		require.Equal(t, errs.InvalidParams, errs.CodeOf(err), "%q: %v", bad, err)
	}
	s.mu.Lock()
	s.refuse = true
	s.mu.Unlock()
	_, err := open(t, api, "l").View(t.Context())
	require.Equal(t, errs.K8SLeaseOperationError, errs.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "is forbidden")
	require.ErrorContains(t, err, "service account")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	_, err = k8s.InCluster()
	require.Equal(t, errs.UnavailableInCurrentMode, errs.CodeOf(err), "%v", err)
}
