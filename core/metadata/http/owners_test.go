package http_test

import (
	"log/slog"
	"net"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/access"
	"github.com/mooncake-go/mooncake/core/internal/testkit/logbuf"
	"github.com/mooncake-go/mooncake/core/metadata/http"
	"github.com/mooncake-go/mooncake/core/metadata/memory"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// TestAKeyBelongsToItsWriter: another identity changes it only once it is gone.
func TestAKeyBelongsToItsWriter(t *testing.T) {
	var log logbuf.Buffer
	k := access.NewControl("log", slog.New(slog.NewTextHandler(&log, nil)), prometheus.NewRegistry())
	store := memory.New(memory.Limits{Entries: 4})
	h := http.NewHandler(store, k)
	ask := func(who, method, key, value string) int {
		r := httptest.NewRequest(method, "/metadata?key="+key, strings.NewReader(value))
		if who != "" {
			id, err := security.ParseIdentity("spiffe://test/mooncake/" + who)
			require.NoError(t, err)
			r = r.WithContext(access.With(t.Context(), access.NewPeer(id, config.DoorMetadata, &net.TCPAddr{})))
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	for i, c := range []struct {
		who, method, key string
		code             int
	}{
		{"store/a", "PUT", "k", 200}, {"store/a", "PUT", "k", 200}, {"store/b", "PUT", "k", 403}, {"store/b", "DELETE", "k", 403},
		{"client/a", "PUT", "k", 403}, {"store/b", "GET", "k", 200}, {"reader/a", "GET", "k", 403}, {"operator/team/a", "DELETE", "k", 403},
		{"operator/a", "PUT", "k", 200}, {"store/b", "PUT", "k", 403}, {"store/a", "PUT", "k", 200}, // The operator does not take it over.
		{"master/a", "DELETE", "k", 200}, {"store/b", "PUT", "k", 200}, {"store/a", "PUT", "k", 403}, {"store/b", "DELETE", "k", 200},
		{"store/a", "DELETE", "k", 404}, {"", "PUT", "k", 200}, {"", "DELETE", "k", 200},
	} {
		require.Equal(t, c.code, ask(c.who, c.method, c.key, strconv.Itoa(i)), "%d: %s %s", i, c.who, c.method)
	}
	require.Equal(t, 200, ask("store/a", "PUT", "k", "v"))
	require.NoError(t, store.Delete(t.Context(), "k")) // As the master does for nodes that fell silent.
	require.Equal(t, 200, ask("store/b", "PUT", "k", "v"))
	for i := range 20 {
		require.Equal(t, 200, ask("store/a", "PUT", "k"+strconv.Itoa(i), "v"))
		require.NoError(t, store.Delete(t.Context(), "k"+strconv.Itoa(i)))
	}
	require.Equal(t, 403, ask("store/a", "PUT", "k", "w"), "what was forgotten was not that of a key that is there")
	k.Close()
	require.Contains(t, log.String(), `call="PUT /metadata" result=refused`)
	require.Contains(t, log.String(), `call="DELETE /metadata" done=1`)
}
