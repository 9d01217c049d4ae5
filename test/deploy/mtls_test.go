package deploy

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/certs"
)

// issued does what cert-manager does with the Certificates among some objects: it returns a folder for each secret.
func issued(t *testing.T, all []manifest) map[string]string {
	t.Helper()
	now := time.Now()
	ca, err := certs.NewAuthority("mooncake", 24*time.Hour, now)
	require.NoError(t, err)
	root, _, err := ca.PEM()
	require.NoError(t, err)
	secrets := map[string]string{}
	for _, m := range all {
		if m.Kind != "Certificate" || m.Spec.IsCA {
			continue
		}
		require.Len(t, m.Spec.URIs, 1, m.Metadata.Name)
		assert.Equal(t, []string{"digital signature", "server auth", "client auth"}, m.Spec.Usages, "as core/certs issues them")
		id, err := url.Parse(m.Spec.URIs[0])
		require.NoError(t, err)
		pair, err := ca.Issue(m.Spec.DNSNames, 24*time.Hour, now, id)
		require.NoError(t, err)
		cert, key, err := pair.PEM()
		require.NoError(t, err)
		dir := t.TempDir()
		for name, text := range map[string][]byte{"ca.crt": root, "tls.crt": cert, "tls.key": key} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
		}
		secrets[m.Spec.SecretName] = dir
	}
	return secrets
}

// as has the next containers find the certificate of a secret.
func (s *site) as(t *testing.T, secrets map[string]string, name string) {
	t.Helper()
	require.Contains(t, secrets, name)
	s.tls = secrets[name]
}

// TestKubernetesMTLS starts the pool with the certificates that its manifests ask for. A client with one puts and gets, an
// operator lists segments, and processes with another role or none are refused.
func TestKubernetesMTLS(t *testing.T) {
	all := append(kustomization(t, "kubernetes-mtls"), objects(t, "kubernetes/engine.yaml")...)
	d := deployed(t, all)
	secrets := issued(t, all)
	s := newSite(t, d.services...)
	keeper := start(t, s.line(t, d.containers["keeper"], nil), nil, nil)
	defer keeper.stop(t)
	for _, c := range []struct {
		name  string
		plain int // doors in plaintext
	}{{"master", 0}, {"store", 1}} {
		s.as(t, secrets, d.secrets[c.name+":"+tlsFolder])
		p := s.starts(t, d.containers[c.name], d.maps)
		defer p.stop(t)
		assert.Equal(t, c.plain, strings.Count(p.log(), "level=WARN"), "%s: %s", c.name, p.log())
		assert.Equal(t, c.plain, strings.Count(p.log(), `msg="a door is open in plaintext, as security.plaintext says" door=health`), c.name)
		assert.Regexp(t, `a door is open.*security=mtls`, p.log(), c.name)
	}

	s.as(t, secrets, d.secrets["sglang:"+tlsFolder])
	client := s.environment(t, d.containers["sglang"], d.maps)
	out, err := command(t, client, "client", "put", "greeting", "--value", "hello")
	require.NoError(t, err, out)
	out, err = command(t, client, "client", "get", "greeting")
	require.NoError(t, err, out)
	assert.Contains(t, out, "hello")

	s.as(t, secrets, "mooncake-operator")
	operator := s.environment(t, d.containers["sglang"], d.maps)
	out, err = command(t, operator, "admin", "segments", "--metrics_port", s.local("9003"))
	require.NoError(t, err, out)
	assert.Contains(t, out, "127.0.0.1:")

	stranger := []string{"MOONCAKE_MASTER=127.0.0.1:" + s.local("50051"), "MOONCAKE_LOCAL_HOSTNAME=127.0.0.1"}
	out, err = command(t, stranger, "client", "get", "greeting")
	require.Error(t, err, out)
	assert.Contains(t, out, "security.mode")
}

// command runs the image's program to its end.
func command(t *testing.T, env []string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, "usr/bin/mooncake"), args...)
	cmd.Env, cmd.Dir = append([]string{"PATH=/usr/bin"}, env...), "/"
	out, err := cmd.CombinedOutput()
	return string(out), err
}
