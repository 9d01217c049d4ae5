package p2p_test

import (
	"context"
	"crypto/tls"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/internal/testkit/logbuf"
	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/metadata/p2p"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/security/securitytest"
)

func doorsOf(t *testing.T, a *securitytest.Authority, role security.Role, log *logbuf.Buffer) *doors.Doors {
	t.Helper()
	f := a.Issue(t, securitytest.Certificate{Role: role, Name: "a"})
	d, err := doors.Open(config.Security{Mode: "mtls", CA: f.CA, Cert: f.Cert, Key: f.Key}, slog.New(slog.NewTextHandler(log, nil)))
	require.NoError(t, err)
	return d
}

// TestHandshakeOverTLS: with security.mode the daemon speaks to nodes of the pool only, and each refusal is
// clear on the side that asks and logged by the daemon.
func TestHandshakeOverTLS(t *testing.T) {
	var log logbuf.Buffer
	a, other := securitytest.NewAuthority(t), securitytest.NewAuthority(t)
	d, at := listen(t, p2p.DaemonOptions{Doors: doorsOf(t, a, security.RoleStore, &log)})
	d.SetNotifyHandler(func(context.Context, metadata.Notification) error { return nil })
	d.SetDescriptor([]byte(`{"name":"a"}`))
	good := p2p.Dialer{Doors: doorsOf(t, a, security.RoleClient, &log)}
	for range 3 {
		require.NoError(t, good.Probe(t.Context(), at))
	}
	require.NoError(t, good.Notify(t.Context(), at, metadata.Notification{Name: "b", Message: "m"}))
	reply, err := good.Exchange(t.Context(), at, p2p.TypeMetadata, []byte("{}"))
	require.NoError(t, err)
	assert.JSONEq(t, `{"name":"a"}`, string(reply))

	err = p2p.Dialer{}.Probe(t.Context(), at)
	require.ErrorContains(t, err, "it takes TLS only")
	require.ErrorContains(t, err, "security.mode must be the same")
	require.Contains(t, log.String(), "a connection without TLS was refused")
	err = p2p.Dialer{Doors: doorsOf(t, other, security.RoleClient, &log)}.Probe(t.Context(), at)
	require.ErrorContains(t, err, "unknown authority")
	conn, err := tls.Dial("tcp", at.String(), &tls.Config{InsecureSkipVerify: true})
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Read(make([]byte, 1))
	require.ErrorContains(t, err, "certificate required")
	require.Contains(t, log.String(), "door=handshake")

	// A daemon without TLS, and one that is no node.
	_, plain := listen(t, p2p.DaemonOptions{})
	err = good.Probe(t.Context(), plain)
	require.ErrorContains(t, err, "it may speak plaintext, and this node demands TLS")
	require.ErrorContains(t, err, "set security.mode there")
	_, operator := listen(t, p2p.DaemonOptions{Doors: doorsOf(t, a, security.RoleOperator, &log)})
	require.ErrorContains(t, good.Probe(t.Context(), operator), "the server is operator/a, expected is a store or client")
}
