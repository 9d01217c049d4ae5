package httpd_test

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/access"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/internal/httpd"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/security/securitytest"
)

func TestARequestHasTheIdentityOfItsConnection(t *testing.T) {
	a := securitytest.NewAuthority(t)
	open := func(role security.Role) *doors.Doors {
		f := a.Issue(t, securitytest.Certificate{Role: role, Name: "a"})
		d, err := doors.Open(config.Security{Mode: "mtls", CA: f.CA, Cert: f.Cert, Key: f.Key}, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		return d
	}
	raw, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ln, err := open(security.RoleMaster).Guard(raw, config.DoorAdmin)
	require.NoError(t, err)
	s := httpd.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, access.Of(r.Context()).Identity.URI())
	}), httpd.Options{})
	s.Start(ln)
	t.Cleanup(func() { require.NoError(t, s.Stop(t.Context())) })

	transport := open(security.RoleOperator).Transport(&http.Transport{}, config.DoorAdmin, security.RoleMaster)
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Get("https://" + ln.Addr().String() + "/")
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "spiffe://test/mooncake/operator/a", string(body))
}
