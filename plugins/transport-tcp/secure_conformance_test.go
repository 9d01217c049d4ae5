package tcp

import (
	"crypto/tls"
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/security/securitytest"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest"
)

// TestConformanceSecured: the contract holds with security.mode mtls, in process and through the wire, which
// passes the settings on.
func TestConformanceSecured(t *testing.T) {
	a := securitytest.NewAuthority(t)
	settings := security.Settings{Mode: security.ModeMTLS, Files: a.Issue(t, securitytest.Certificate{Role: security.RoleStore, Name: "a"})}
	server := a.Keeper(t, security.ModeMTLS, securitytest.Certificate{Role: security.RoleStore, Name: "a"}).Server()
	through := transporttest.ThroughWire(t, Factory(), transporttest.WireOptions{})
	for name, c := range map[string]struct {
		factory transport.Factory
		opts    []transporttest.Option
	}{
		"in process": {Factory(), nil},
		"through the wire": {through, []transporttest.Option{
			transporttest.WithSharedMemory(transporttest.SealedMemory),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			transporttest.Run(t, c.factory, append(c.opts,
				transporttest.WithSecurity(settings),
				transporttest.WithConfig(func() plugin.Config {
					c := loopback()
					c.MaxInflightBytes = 4 << 20
					return c
				}),
				transporttest.WithLimit(4<<20),
				transporttest.WithFrozen(func(t conformance.TB, live transport.Endpoint) transport.Endpoint {
					e, err := frame.DecodeEndpoint(live.Blob)
					require.NoError(t, err)
					require.True(t, e.TLS, "the transport got the settings")
					return frozenAs(t, live, func(c net.Conn) net.Conn { return tls.Server(c, server) })
				}),
				transporttest.WithRestart(func(cfg plugin.Config, ep transport.Endpoint) plugin.Config {
					e, err := frame.DecodeEndpoint(ep.Blob)
					require.NoError(t, err)
					_, port, err := net.SplitHostPort(e.Addrs[0])
					require.NoError(t, err)
					cfg.(*Config).Port, err = strconv.Atoi(port)
					require.NoError(t, err)
					return cfg
				}))...)
		})
	}
}
