package storeservice

import (
	"log/slog"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/access"
	"github.com/mooncake-go/mooncake/core/internal/testkit/logbuf"
	"github.com/mooncake-go/mooncake/sdk/security"

	"github.com/prometheus/client_golang/prometheus"
)

func TestTheTableOfCallsHasEveryRoute(t *testing.T) {
	known := map[string]bool{}
	for _, r := range routes() {
		assert.NotNil(t, access.Find(string(config.DoorREST), r.method+" "+r.path), "access lacks %s %s", r.method, r.path)
		known[r.method+" "+r.path] = true
	}
	for _, c := range access.Table() {
		if c.Service == string(config.DoorREST) {
			assert.True(t, known[c.Name], "access has %s, which is no route any more", c.Name)
		}
	}
}

func TestIdentitiesAskForWhatTheyMay(t *testing.T) {
	var log logbuf.Buffer
	k := access.NewControl("log", slog.New(slog.NewTextHandler(&log, nil)), prometheus.NewRegistry())
	s := New(nil, nil, Options{Access: k, Tenant: "team"})
	for _, c := range []struct {
		who, method, path string
		forbidden         bool
	}{
		{"client/a", "GET", "/api/get/k", true}, // of tenant default
		{"reader/team/a", "GET", "/api/get/k", true},
		{"client/team/a", "POST", "/api/unmount", true},
		{"operator/team/a", "POST", "/api/unmount", true},
		{"operator/a", "POST", "/api/unmount", false},
		{"client/team/a", "PUT", "/api/put", false},
		{"client/a", "DELETE", "/api/remove_all", true},
	} {
		id, err := security.ParseIdentity("spiffe://test/mooncake/" + c.who)
		require.NoError(t, err)
		p := access.NewPeer(id, config.DoorREST, &net.TCPAddr{})
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequestWithContext(access.With(t.Context(), p), c.method, c.path, strings.NewReader("{}")))
		if c.forbidden {
			assert.Equal(t, 403, w.Code, "%s %s %s: %s", c.who, c.method, c.path, w.Body)
		} else {
			assert.Equal(t, 400, w.Code, "the body is empty: %s %s %s: %s", c.who, c.method, c.path, w.Body)
		}
	}
	require.Contains(t, log.String(), `who=operator/a`)
	require.Contains(t, log.String(), `call="POST /api/unmount" object=/api/unmount result=failed`)
}
