package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/core/certs"
	"github.com/mooncake-go/mooncake/internal/issuer"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// project writes a token as the kubelet does: into a new folder, to which a link is then moved.
func project(t *testing.T, dir, token string) (file string) {
	t.Helper()
	real, err := os.MkdirTemp(dir, "..data_")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(real, "token"), []byte(token), 0o600))
	link := filepath.Join(dir, "..data")
	require.NoError(t, os.Symlink(filepath.Base(real), link+"_tmp"))
	require.NoError(t, os.Rename(link+"_tmp", link))
	file = filepath.Join(dir, "token")
	if _, err := os.Lstat(file); os.IsNotExist(err) {
		require.NoError(t, os.Symlink(filepath.Join("..data", "token"), file))
	}
	return file
}

// TestTokensOfServiceAccounts: a master takes the tokens of an issuer, which it finds by its OpenID configuration. A command shows
// a projected token that is replaced, and a scraper reads the metrics.
func TestTokensOfServiceAccounts(t *testing.T) {
	iss, key := issuer.New(t), issuer.NewKey(t, "one")
	iss.Publish(key)
	ports, err := cluster.FreePorts(2)
	require.NoError(t, err)
	dir := certs.Folder(filepath.Join(t.TempDir(), "pki"))
	_, err = dir.Try("mooncake", nil, 24*time.Hour, time.Now())
	require.NoError(t, err)
	f, _ := dir.Node(string(security.RoleMaster))
	m := start(t, "master", "mooncake", "master", "--rpc_address", "127.0.0.1", "--rpc_port", fmt.Sprint(ports[0]), "--metrics_host", "127.0.0.1", "--metrics_port", fmt.Sprint(ports[1]),
		"--noenable_metric_reporting", "--security_mode", "mtls", "--security_ca", dir.Authority().Cert, "--security_cert", f.Cert, "--security_key", f.Key,
		"--security_tokens", "reader/prometheus=system:serviceaccount:monitoring:prometheus,operator=system:serviceaccount:mooncake:admin",
		"--security_token_issuer", iss.URL, "--security_token_audience", issuer.Audience, "--security_token_keys_ca", iss.CA)
	says(t, m, "master is serving")
	says(t, m, "the keys of the issuer of tokens were taken up")

	const admin, prometheus = "system:serviceaccount:mooncake:admin", "system:serviceaccount:monitoring:prometheus"
	folder := t.TempDir()
	sign := func(sub string, life time.Duration) string { return key.Sign(t, iss.Claims(sub, life)) }
	file := project(t, folder, sign(admin, time.Hour))
	run := func(env []string, args ...string) (int, string) {
		r := program(t, "mooncake", append([]string{"MOONCAKE_SECURITY_MODE=mtls", "MOONCAKE_SECURITY_CA=" + dir.Authority().Cert}, env...), "",
			append(append([]string{"admin"}, args...), "--master", fmt.Sprintf("127.0.0.1:%d", ports[0]), "--metrics_port", fmt.Sprint(ports[1]))...)
		return r.Code, r.Stdout + r.Stderr
	}
	code, out := run(nil, "summary", "--token-file", file)
	require.Zero(t, code, out)
	code, out = run([]string{"MOONCAKE_SECURITY_TOKEN_FILE=" + file}, "remove-all", "--yes")
	require.Zero(t, code, out)
	says(t, m, "who=operator/system:serviceaccount:mooncake:admin")
	code, out = run(nil, "segments")
	require.NotZero(t, code)
	assert.Contains(t, out, "security.cert")

	project(t, folder, sign(admin, -time.Hour))
	code, out = run(nil, "summary", "--token-file", file)
	require.NotZero(t, code)
	assert.Contains(t, out, "the token ended at")
	project(t, folder, sign(prometheus, time.Hour))
	code, out = run(nil, "summary", "--token-file", file)
	require.Zero(t, code, out)
	code, out = run(nil, "remove-all", "--yes", "--token-file", file)
	require.NotZero(t, code)
	assert.Contains(t, out, "reader/prometheus may not call")

	next := issuer.NewKey(t, "next")
	iss.Publish(next)
	roots := x509.NewCertPool()
	pem, err := os.ReadFile(dir.Authority().Cert)
	require.NoError(t, err)
	require.True(t, roots.AppendCertsFromPEM(pem))
	scraper := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots}}}
	scrape := func(token string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/metrics", ports[1]), http.NoBody)
		require.NoError(t, err)
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := scraper.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(text)
	}
	rotated := next.Sign(t, iss.Claims(prometheus, time.Hour))
	require.Eventually(t, func() bool { code, _ := scrape(rotated); return code == http.StatusOK }, time.Minute, 100*time.Millisecond, "a new key is fetched")
	code, out = scrape("")
	require.Equal(t, http.StatusUnauthorized, code, out)
	_, out = scrape(rotated)
	require.Contains(t, out, `mooncake_refused_calls_total{call="token",door="admin",role=""}`)
	require.NotContains(t, m.Tail(), rotated)
}
