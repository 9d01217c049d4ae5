package doors_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/security/securitytest"
)

// told is a transport that tells the header of a request.
type told chan string

func (c told) RoundTrip(r *http.Request) (*http.Response, error) {
	c <- r.Header.Get("Authorization")
	return httptest.NewRecorder().Result(), nil
}

// TestATokenIsShownOverTLSOnly, and not beside a certificate. It is read for each request.
func TestATokenIsShownOverTLSOnly(t *testing.T) {
	f := securitytest.NewAuthority(t).Issue(t, securitytest.Certificate{Role: security.RoleMaster, Name: "a"})
	file := filepath.Join(t.TempDir(), "token")
	c := make(told, 1)
	ask := func(cfg config.Security) (string, error) {
		cfg.CA, cfg.Cert, cfg.Key = f.CA, f.Cert, f.Key
		d, err := doors.Open(cfg, nil)
		require.NoError(t, err)
		resp, err := (&http.Client{Transport: d.ShowToken(c, config.DoorAdmin)}).Post("http://a/", "", http.NoBody)
		if err != nil {
			return "", err
		}
		return <-c, resp.Body.Close()
	}
	for _, token := range []string{"first", "second"} {
		require.NoError(t, os.WriteFile(file, []byte(token), 0o600))
		shown, err := ask(config.Security{Mode: "tls", TokenFile: file})
		require.NoError(t, err)
		require.Equal(t, "Bearer "+token, shown)
		for _, cfg := range []config.Security{
			{Mode: "off", TokenFile: file}, {Mode: "mtls", TokenFile: file}, {Mode: "tls", TokenFile: file, Plaintext: []string{"admin"}}, {Mode: "tls"},
		} {
			shown, err := ask(cfg)
			require.NoError(t, err)
			require.Empty(t, shown, "%+v", cfg)
		}
	}
	require.NoError(t, os.Remove(file))
	_, err := ask(config.Security{Mode: "tls", TokenFile: file})
	require.ErrorContains(t, err, "security.token_file")
	require.ErrorIs(t, err, os.ErrNotExist)
}
