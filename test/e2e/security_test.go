package e2e

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/core/certs"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/test/internal/programs"
)

// securePool is a master with a metadata server and a store with a REST service, in mode mtls.
type securePool struct {
	pool
	dir  certs.Folder
	rest string
}

// of returns the flags of a process with a certificate.
func (p *securePool) of(role security.Role) []string {
	f, _ := p.dir.Node(string(role))
	return []string{"--security_mode", "mtls", "--security_ca", p.dir.Authority().Cert, "--security_cert", f.Cert, "--security_key", f.Key}
}

// environ is of for the environment.
func (p *securePool) environ(role security.Role) []string {
	flags := p.of(role)
	var env []string
	for i := 0; i < len(flags); i += 2 {
		env = append(env, "MOONCAKE_"+strings.ToUpper(strings.TrimPrefix(flags[i], "--"))+"="+flags[i+1])
	}
	return env
}

// startSecurePool starts a pool with the tenants default and team.
func startSecurePool(t *testing.T) *securePool {
	t.Helper()
	ports, err := cluster.FreePorts(5)
	require.NoError(t, err)
	at := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	p := &securePool{dir: certs.Folder(filepath.Join(t.TempDir(), "pki")), rest: at(3)}
	p.rpc, p.admin, p.meta = at(0), at(1), "http://"+at(2)+"/metadata"
	_, err = p.dir.Try("mooncake", nil, 24*time.Hour, time.Now())
	require.NoError(t, err)
	quotas := filepath.Join(t.TempDir(), "quotas.yaml")
	require.NoError(t, os.WriteFile(quotas, []byte("version: 1\ntenants: []\n"), 0o600))
	p.master = start(t, "master", "mooncake", append([]string{
		"master", "--rpc_address", "127.0.0.1", "--rpc_port", fmt.Sprint(ports[0]), "--metrics_host", "127.0.0.1", "--metrics_port", fmt.Sprint(ports[1]),
		"--enable_http_metadata_server", "--http_metadata_server_host", "127.0.0.1", "--http_metadata_server_port", fmt.Sprint(ports[2]), "--client_ttl", "1m", "--noenable_metric_reporting",
		"--enable_multi_tenants", "--tenant_quota_connector_uri", quotas,
	}, p.of(security.RoleMaster)...)...)
	says(t, p.master, "master is serving")
	p.stores = append(p.stores, start(t, "store", "mooncake", append([]string{
		"store", "--master_server_address", p.rpc, "--metadata_server", p.meta, "--local_hostname", "127.0.0.1", "--global_segment_size", "32MiB", "--keep", "off",
		"--transports", "tcp", "--rest_host", "127.0.0.1", "--port", fmt.Sprint(ports[3]), "--enable_http_server", "--http_port", fmt.Sprint(ports[4]),
	}, p.of(security.RoleStore)...)...))
	says(t, p.stores[0], "store service is serving")
	for _, tenant := range []string{"default", "team"} {
		r := program(t, "mooncake", p.environ(security.RoleOperator), "", "admin", "tenants", "set", tenant, "16MiB", "--master", p.rpc, "--metrics_port", port(t, p.admin))
		require.Equal(t, 0, r.Code, r.Stderr)
	}
	return p
}

// client runs a verb of the client with an environment.
func (p *securePool) client(t *testing.T, env []string, stdin, verb, key string) programs.Result {
	t.Helper()
	return program(t, "mooncake", env, stdin, "client", verb, key, "--master_server_address", p.rpc, "--metadata_server", p.meta,
		"--local_hostname", "127.0.0.1", "--transports", "tcp")
}

func (p *securePool) putGet(t *testing.T, key string) {
	p.putGetAs(t, key, p.environ(security.RoleClient))
}

func (p *securePool) putGetAs(t *testing.T, key string, env []string) {
	t.Helper()
	value := strings.Repeat(key+"\n", 1000)
	r := p.client(t, env, value, "put", key)
	require.Equal(t, 0, r.Code, r.Stderr)
	r = p.client(t, env, "", "get", key)
	require.Equal(t, 0, r.Code, r.Stderr)
	require.Equal(t, value, r.Stdout)
}

// tenants uses the pool with an identity of another tenant than the other clients.
func (p *securePool) tenants(t *testing.T) {
	t.Helper()
	f, err := p.dir.Issue("engine", nil, time.Hour, time.Now(), security.Identity{Trust: "mooncake", Role: security.RoleClient, Tenant: "team", Name: "engine"})
	require.NoError(t, err)
	team := append(p.environ(security.RoleClient), "MOONCAKE_SECURITY_CERT="+f.Cert, "MOONCAKE_SECURITY_KEY="+f.Key)
	p.putGetAs(t, "of the team", team)
	r := p.client(t, p.environ(security.RoleClient), "", "get", "of the team")
	assert.NotZero(t, r.Code)
	assert.Contains(t, r.Stderr, "OBJECT_NOT_FOUND")
	r = p.client(t, append(team, "MOONCAKE_STORE_TENANT_ID=other"), "", "get", "a")
	assert.NotZero(t, r.Code)
	assert.Contains(t, r.Stderr, `client/team/engine is of tenant "team"`)
	r = program(t, "mooncake", team, "", "admin", "segments", "--master", p.rpc, "--metrics_port", port(t, p.admin))
	assert.NotZero(t, r.Code)
	assert.Contains(t, r.Stderr, "use a certificate with a role among master, operator, reader")
	says(t, p.master, "a call was refused")
	says(t, p.master, "who=client/team/engine")
}

func TestAPoolWithMutualTLS(t *testing.T) {
	p := startSecurePool(t)
	p.putGet(t, "a")
	for _, what := range []string{"security=mtls", "door=handshake"} {
		require.Contains(t, p.stores[0].Tail(), what, "objects and descriptors go over TLS")
	}
	admin := program(t, "mooncake", p.environ(security.RoleOperator), "", "admin", "segments", "--master", p.rpc, "--metrics_port", port(t, p.admin))
	require.Equal(t, 0, admin.Code, admin.Stderr)
	assert.Contains(t, admin.Stdout, "127.0.0.1:")

	t.Run("a client without a certificate", func(t *testing.T) {
		r := program(t, "mooncake", nil, "", "client", "get", "a", "--master_server_address", p.rpc, "--metadata_server", "P2PHANDSHAKE",
			"--local_hostname", "127.0.0.1", "--transports", "tcp", "--max_wait_time", "1s")
		assert.NotZero(t, r.Code)
		assert.Contains(t, r.Stderr, "security.mode")
		says(t, p.master, "without TLS was refused")
	})
	t.Run("foreign and ended certificates", func(t *testing.T) { p.refuses(t) })
	t.Run("tenants", func(t *testing.T) { p.tenants(t) })
	t.Run("certificates change", func(t *testing.T) {
		for _, role := range []security.Role{security.RoleMaster, security.RoleStore, security.RoleClient} {
			f, err := p.dir.Node(string(role))
			require.NoError(t, err)
			_, err = p.dir.Renew(f.Cert, 24*time.Hour, time.Now())
			require.NoError(t, err)
		}
		for i := 0; ; i++ {
			p.putGet(t, fmt.Sprint("rotated/", i))
			if strings.Contains(p.master.Tail(), "certificates were replaced") && strings.Contains(p.stores[0].Tail(), "certificates were replaced") {
				break
			}
			require.Less(t, i, 1000)
		}
		p.putGet(t, "after")
	})
}

func port(t *testing.T, addr string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	return port
}

// refuses connects to every TLS port with certificates that are not good.
func (p *securePool) refuses(t *testing.T) {
	t.Helper()
	long := time.Now().Add(-48 * time.Hour)
	other := certs.Folder(filepath.Join(t.TempDir(), "other"))
	_, err := other.Init("other", 365*24*time.Hour, long)
	require.NoError(t, err)
	id := security.Identity{Trust: "mooncake", Role: security.RoleClient, Name: "try"}
	stranger, err := other.Issue("stranger", nil, 24*365*time.Hour, time.Now(), id)
	require.NoError(t, err)
	ended, err := p.dir.Issue("ended", nil, time.Hour, long, id)
	require.NoError(t, err)
	nobody, err := p.dir.Issue("nobody", []string{"127.0.0.1"}, time.Hour, time.Now())
	require.NoError(t, err)
	said := func() int { return bytes.Count([]byte(p.master.Tail()), []byte("refused for its certificate")) }
	for name, f := range map[string]certs.Files{"of another authority": stranger, "ended": ended, "without an identity": nobody, "none": {}} {
		cfg := &tls.Config{InsecureSkipVerify: true}
		if f.Cert != "" {
			pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
			require.NoError(t, err)
			cfg.Certificates = []tls.Certificate{pair}
		}
		for _, addr := range []string{p.rpc, p.admin, p.rest} {
			c, err := (&tls.Dialer{Config: cfg}).DialContext(t.Context(), "tcp", addr)
			require.NoError(t, err)
			_, _ = io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n") // The answer tells.
			got, err := io.ReadAll(c)
			require.ErrorContains(t, err, "remote error", "%s at %s", name, addr)
			assert.Empty(t, got)
			_ = c.Close()
		}
	}
	require.Eventually(t, func() bool { return said() >= 2 }, 30*time.Second, time.Millisecond, "both doors of the master say so, each once a minute for a host")
	r := program(t, "mooncake", append(p.environ(security.RoleClient), "MOONCAKE_SECURITY_CERT="+ended.Cert, "MOONCAKE_SECURITY_KEY="+ended.Key), "",
		"admin", "segments", "--master", p.rpc, "--metrics_port", port(t, p.admin))
	assert.NotZero(t, r.Code)
	assert.Contains(t, r.Stderr, "mooncake certs renew")
}

func TestWhatWouldBePlaintextIsRefusedAtTheStart(t *testing.T) {
	p := &securePool{dir: certs.Folder(filepath.Join(t.TempDir(), "pki"))}
	_, err := p.dir.Try("mooncake", nil, 24*time.Hour, time.Now())
	require.NoError(t, err)
	env := p.environ(security.RoleStore)
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"store", "--transports", "rdma", "--local_hostname", "127.0.0.1"}, "name rdma in security.plaintext"},
		{[]string{"master", "--rpc_port", "0", "--metrics_port", "0", "--enable_kv_events", "--kv_events_bind_endpoint", "tcp://127.0.0.1:*", "--kv_events_backend_id", "a"}, "name kv-events in security.plaintext"},
		{[]string{"master", "--enable_ha", "--ha_backend_connstring", "http://127.0.0.1:1", "--metrics_port", "0"}, "name etcd in security.plaintext"},
	} {
		r := program(t, "mooncake", env, "", c.args...)
		assert.NotZero(t, r.Code, c.args)
		assert.Contains(t, r.Stderr, c.says, c.args)
	}
}
