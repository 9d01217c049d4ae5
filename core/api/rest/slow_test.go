package rest_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/rest"
	"github.com/mooncake-go/mooncake/core/internal/httpd"
	"github.com/mooncake-go/mooncake/core/model"
)

// stuck has keys as long as a client reads them, for any number of readers.
type stuck struct {
	*fake
	walks atomic.Int32
}

func (m *stuck) WalkKeys(yield func(model.Key) bool) {
	m.walks.Add(1)
	for key := strings.Repeat("k", 32<<10); yield(key); {
	}
}

// TestSlowClientsDoNotBlockHealth: more of them than the port takes connections, each as
// slow as its kind can be.
func TestSlowClientsDoNotBlockHealth(t *testing.T) {
	const clients = 520
	for name, start := range map[string]string{
		"heads":  "GET /health HTTP/1.1\r\nHost:",
		"bodies": "POST /api/v1/tasks HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
		"chunks": "PUT /api/v1/tenant_quotas?tenant_id=t HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
	} {
		t.Run(name, func(t *testing.T) { healthBeside(t, newFake(), start, clients) })
	}
	m := &stuck{fake: newFake()}
	t.Run("readers", func(t *testing.T) { healthBeside(t, m, "GET /get_all_keys HTTP/1.1\r\nHost: x\r\n\r\n", 40) })
	assert.Equal(t, int32(40), m.walks.Load())
}

func healthBeside(t *testing.T, m rest.Master, start string, clients int) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := httpd.New(rest.NewHandler(m, rest.Options{}), httpd.Options{})
	s.Start(ln)
	defer func() {
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // at once: these clients would never end
		require.NoError(t, s.Stop(ctx))
	}()
	for range clients {
		conn, err := net.Dial("tcp", ln.Addr().String())
		require.NoError(t, err)
		defer conn.Close()
		_, err = io.WriteString(conn, start)
		require.NoError(t, err)
	}
	if x, ok := m.(*stuck); ok {
		require.Eventually(t, func() bool { return x.walks.Load() == int32(clients) }, time.Minute, time.Millisecond)
	}
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	for range 5 {
		resp, err := client.Get("http://" + ln.Addr().String() + "/health")
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		resp.Body.Close()
		assert.Equal(t, 200, resp.StatusCode)
	}
}
