package quic

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/security/securitytest"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest"
)

// process is a host with a security mode.
type process struct {
	*testHost
	settings security.Settings
}

func (p process) Security() security.Settings { return p.settings }

func ofProcess(t testing.TB, a *securitytest.Authority, role security.Role) process {
	return process{&testHost{}, security.Settings{
		Mode: security.ModeMTLS, Files: a.Issue(t, securitytest.Certificate{Role: role, Name: "a", Hosts: []string{"127.0.0.1"}}),
	}}
}

// plainConfig names no certificates.
func plainConfig() *Config {
	c := insecure()
	c.InsecureDev, c.ReloadEvery = false, plugin.Duration(time.Hour)
	return c
}

func begin(t testing.TB, c *Config, h plugin.Host) *node {
	t.Helper()
	n := newNode(*c)
	require.NoError(t, n.Start(context.Background(), h))
	t.Cleanup(func() { require.NoError(t, n.Stop(context.Background())) })
	return n
}

// TestCertificatesOfTheProcess: without its own the transport uses those of the process, and checks roles.
func TestCertificatesOfTheProcess(t *testing.T) {
	a := securitytest.NewAuthority(t)
	host := ofProcess(t, a, security.RoleStore)
	server := begin(t, plainConfig(), host)
	mem, key := served(t, server, 1<<20)
	for role, words := range map[security.Role]string{
		security.RoleClient: "", security.RoleStore: "", security.RoleMaster: "",
		security.RoleOperator: "certificate", security.RoleReader: "certificate", // Refused while it connects, or right after.
	} {
		t.Run(string(role), func(t *testing.T) {
			p, id := dialled(t, begin(t, plainConfig(), ofProcess(t, a, role)), server.Endpoint(), key)
			if words == "" {
				readOK(t, p, id, mem)
				return
			}
			refusedAs(t, p, id, errs.ClassTransientPeer, words)
		})
	}

	require.Equal(t, 1, strings.Count(host.log(), "a peer was refused for its certificate"), "%s", host.log())
	require.Regexp(t, "peer=127.0.0.1:[0-9]+ error=.*the client is (operator|reader)/a, expected is a store or client or master", host.log())
	t.Run("another authority", func(t *testing.T) {
		p, id := dialled(t, begin(t, plainConfig(), ofProcess(t, securitytest.NewAuthority(t), security.RoleClient)), server.Endpoint(), key)
		refusedAs(t, p, id, errs.ClassTransientPeer, "unknown authority")
	})
	t.Run("a server of another role", func(t *testing.T) {
		operator := begin(t, plainConfig(), ofProcess(t, a, security.RoleOperator))
		_, key := served(t, operator, 64)
		p, id := dialled(t, begin(t, plainConfig(), ofProcess(t, a, security.RoleClient)), operator.Endpoint(), key)
		refusedAs(t, p, id, errs.ClassTransientPeer, "the server is operator/a, expected is a store or client")
	})
	t.Run("rotation", func(t *testing.T) {
		p, id := dialled(t, begin(t, plainConfig(), ofProcess(t, a, security.RoleClient)), server.Endpoint(), key)
		readOK(t, p, id, mem)
		before := serialOf(t, server)
		a.Replace(t, host.settings.Files, securitytest.Certificate{Role: security.RoleStore, Name: "a"})
		server.revise(server.trust.Look())
		require.NotEqual(t, before, serialOf(t, server))
		readOK(t, p, id, mem)
	})
}

// TestOwnCertificatesWin: a transport whose settings name certificates uses these, whatever the process has.
func TestOwnCertificatesWin(t *testing.T) {
	ca := newAuthority(t)
	f := newFiles(t).write(t, ca, ca, nodeCert())
	host := ofProcess(t, securitytest.NewAuthority(t), security.RoleStore)
	server, client := begin(t, f.config(), host), begin(t, f.config(), host)
	mem, key := served(t, server, 4096)
	p, id := dialled(t, client, server.Endpoint(), key)
	readOK(t, p, id, mem)
	require.Nil(t, server.trust.Process)

	c := plainConfig()
	c.InsecureDev = true
	err := newNode(*c).Start(context.Background(), host)
	require.ErrorContains(t, err, "insecure_dev does not verify peers, and security.mode is mtls")
	require.ErrorContains(t, err, "remove insecure_dev")
}

// TestModeTLSOfTheProcess: with mode tls a client needs no certificate to be served.
func TestModeTLSOfTheProcess(t *testing.T) {
	a := securitytest.NewAuthority(t)
	host, client := ofProcess(t, a, security.RoleStore), ofProcess(t, a, security.RoleClient)
	host.settings.Mode, client.settings.Mode = security.ModeTLS, security.ModeTLS
	server := begin(t, plainConfig(), host)
	mem, key := served(t, server, 4096)
	p, id := dialled(t, begin(t, plainConfig(), client), server.Endpoint(), key)
	readOK(t, p, id, mem)
	client.settings.Files.Cert, client.settings.Files.Key = "", ""
	require.ErrorContains(t, newNode(*plainConfig()).Start(context.Background(), client), "needs a certificate and its key")
}

// TestConformanceOfTheProcess: the contract holds with the certificates of the process.
func TestConformanceOfTheProcess(t *testing.T) {
	h := ofProcess(t, securitytest.NewAuthority(t), security.RoleStore)
	transporttest.Run(t, Factory(), transporttest.WithSecurity(h.settings), transporttest.WithConfig(func() plugin.Config { return plainConfig() }),
		transporttest.Without("start and stop", "it has no certificates there"))
}
