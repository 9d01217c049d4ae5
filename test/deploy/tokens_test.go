package deploy

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/internal/issuer"
)

// TestKubernetesTokens starts the master with the settings of the manifests for tokens, and an issuer in place of the API server. The
// job administers the pool with the token of its service account, and Prometheus reads the metrics with its own.
func TestKubernetesTokens(t *testing.T) {
	all := append(kustomization(t, "kubernetes-mtls-tokens"), objects(t, "kubernetes-mtls-tokens/admin.yaml")...)
	d := deployed(t, all)
	secrets := issued(t, all)
	s := newSite(t, d.services...)
	iss, key := issuer.New(t), issuer.NewKey(t, "one")
	iss.Publish(key)
	iss.Wants = "Bearer of-the-master"
	own := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(own, []byte("of-the-master"), 0o600))

	c := d.maps["mooncake-security"]
	audience, given := d.tokens["master:"+c["MOONCAKE_SECURITY_TOKEN_KEYS_TOKEN"]]
	require.True(t, given, "the master has the token that it shows to the API server")
	require.Empty(t, audience, "the token is for the API server")
	require.Equal(t, "https://kubernetes.default.svc/openid/v1/jwks", c["MOONCAKE_SECURITY_TOKEN_KEYS"])
	require.Equal(t, issuer.Audience, c["MOONCAKE_SECURITY_TOKEN_AUDIENCE"])
	for name, here := range map[string]string{"ISSUER": iss.URL, "KEYS": iss.JWKS(), "KEYS_CA": iss.CA, "KEYS_TOKEN": own} {
		require.NotEmpty(t, c["MOONCAKE_SECURITY_TOKEN_"+name], name)
		c["MOONCAKE_SECURITY_TOKEN_"+name] = here
	}
	s.as(t, secrets, d.secrets["master:"+tlsFolder])
	p := s.starts(t, d.containers["master"], d.maps)
	defer p.stop(t)
	require.Eventually(t, func() bool { return strings.Contains(p.log(), "the keys of the issuer of tokens were taken up") }, patience, 10*time.Millisecond)

	admin := d.containers["admin"]
	const file = "/var/run/secrets/mooncake/token"
	require.Equal(t, c["MOONCAKE_SECURITY_TOKEN_AUDIENCE"], d.tokens["admin:"+file])
	token := filepath.Join(t.TempDir(), "token")
	env := s.environment(t, admin, d.maps)
	run := func(subject string) (string, error) {
		require.NoError(t, os.WriteFile(token, []byte(key.Sign(t, iss.Claims(subject, time.Hour))), 0o600))
		args := s.line(t, admin, env)[1:]
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], file, token)
		}
		return command(t, env, append(args, "--metrics_port", s.local("9003"))...)
	}
	out, err := run("system:serviceaccount:mooncake:mooncake-admin")
	require.NoError(t, err, out)
	assert.Contains(t, out, "objects")
	out, err = run("system:serviceaccount:default:default")
	require.Error(t, err)
	assert.Contains(t, out, "no entry of security.tokens")

	roots := x509.NewCertPool()
	pem, err := os.ReadFile(filepath.Join(s.tls, "ca.crt"))
	require.NoError(t, err)
	require.True(t, roots.AppendCertsFromPEM(pem))
	prometheus := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "mooncake-master.mooncake.svc"}}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://127.0.0.1:"+s.local("9003")+"/metrics", http.NoBody)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+key.Sign(t, iss.Claims("system:serviceaccount:monitoring:prometheus", time.Hour)))
	resp, err := prometheus.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, resp.StatusCode, string(text))
	assert.Contains(t, string(text), "mooncake_refused_calls_total{")
}
