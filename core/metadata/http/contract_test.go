package http_test

import (
	"context"
	"net"
	nethttp "net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/metadata/http"
	"github.com/mooncake-go/mooncake/core/metadata/memory"
	"github.com/mooncake-go/mooncake/core/metadata/storetest"
)

// TestContract runs over a server whose values are gone after a restart, as those of the
// metadata server are.
func TestContract(t *testing.T) {
	address := storetest.FreeAddress(t)
	var srv *nethttp.Server
	stop := func(t testing.TB) { require.NoError(t, srv.Close()) }
	start := func(t testing.TB) {
		ln, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
		require.NoError(t, err)
		srv = &nethttp.Server{Handler: http.NewHandler(memory.New(memory.Limits{}), nil)}
		go func() { _ = srv.Serve(ln) }() // It ends with Close, which says so.
	}
	openAt := func(t testing.TB, address string, timeout time.Duration) (metadata.Store, func()) {
		c, err := http.NewClient("http://"+address+http.Path, http.ClientOptions{Timeout: timeout})
		require.NoError(t, err)
		return c, c.Close
	}
	start(t)
	defer stop(t)
	storetest.Run(t, storetest.Service{
		Open:   func(t testing.TB) (metadata.Store, func()) { return openAt(t, address, 0) },
		OpenAt: openAt,
		Stop:   stop, Start: start, Forgets: true,
	})
}
