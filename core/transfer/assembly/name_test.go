package assembly

import (
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/ports"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestLocalName(t *testing.T) {
	s := config.Store{LocalHostname: "10.0.0.7:4711", ClientMinPort: 12300, ClientMaxPort: 14300, SetupRetries: 1}
	name, claim, err := localName(t.Context(), s)
	require.NoError(t, err)
	assert.Equal(t, "10.0.0.7:4711", name)
	assert.Nil(t, claim)

	for given, want := range map[string]string{"node-7": "node-7", "::1": "::1", "[2001:db8::7]": "2001:db8::7"} {
		s.LocalHostname = given
		name, claim, err = localName(t.Context(), s)
		require.NoError(t, err)
		host, port, err := net.SplitHostPort(name)
		require.NoError(t, err)
		n, err := strconv.Atoi(port)
		require.NoError(t, err)
		assert.Equal(t, want, host)
		assert.GreaterOrEqual(t, n, s.ClientMinPort)
		assert.LessOrEqual(t, n, s.ClientMaxPort)

		own := config.Store{LocalHostname: given, ClientMinPort: n, ClientMaxPort: n, SetupRetries: 1}
		_, _, err = localName(t.Context(), own)
		assert.Error(t, err, "two processes of a host do not get one name")
		if conn, err := net.Dial("tcp", "127.0.0.1:"+port); assert.NoError(t, err) {
			_, err = conn.Read(make([]byte, 1))
			assert.Error(t, err, "nothing is served there")
			assert.NoError(t, conn.Close())
		}
		require.NoError(t, claim.Close())
		name, claim, err = localName(t.Context(), own)
		require.NoError(t, err)
		assert.Equal(t, net.JoinHostPort(want, port), name)
		require.NoError(t, claim.Close())
	}

	s.LocalHostname = ""
	_, _, err = localName(t.Context(), s)
	assert.ErrorIs(t, err, errs.InvalidParams.Err())

	ln, err := net.Listen("tcp", ":0")
	require.NoError(t, err)
	defer ln.Close()
	taken := ln.Addr().(*net.TCPAddr).Port
	_, _, err = localName(t.Context(), config.Store{LocalHostname: "n", ClientMinPort: taken, ClientMaxPort: taken, SetupRetries: 2})
	assert.ErrorContains(t, err, "no port from "+strconv.Itoa(taken))
	assert.ErrorContains(t, err, "store.client_min_port")
}

// Without a metadata service a name that says nothing of the address gets one, and port 0 is
// no port; with a service the name stays and peers are told an address.
func TestNamesOfEngines(t *testing.T) {
	v4, v6 := ports.Concrete("0.0.0.0"), ports.Concrete("::")
	for name, want := range map[string]string{
		"10.0.0.7": "10.0.0.7", "10.0.0.7:7600": "10.0.0.7:7600", "10.0.0.7:0": "10.0.0.7", "node-7:0": "node-7", "::1": "::1", "[::1]:0": "::1",
		"[fd00::7]:7600": "[fd00::7]:7600", "": v4, ":7600": v4 + ":7600", ":0": v4, "0.0.0.0": v4, "0.0.0.0:0": v4, "0.0.0.0:7600": v4 + ":7600",
		"::": v6, "[::]": v6, "[::]:0": v6, "[::]:7600": net.JoinHostPort(v6, "7600"),
	} {
		s := config.Store{LocalHostname: name, MetadataServer: "P2PHANDSHAKE", HandshakePortFromName: true}
		assert.Equal(t, want, ownName(&s), name)
		assert.Empty(t, s.AdvertiseHost, name)
		_, port := splitName(name)
		_, given, err := net.SplitHostPort(name)
		assert.Equal(t, err != nil || port == given, s.HandshakePortFromName, "%s: only port 0 asks for any", name)
	}
	for name, advertised := range map[string]string{"0.0.0.0:7600": v4, "[::]:7600": v6, "node-7": "", "10.0.0.7:1": ""} {
		s := config.Store{LocalHostname: name, MetadataServer: "http://10.0.0.1:8080/metadata"}
		assert.Equal(t, name, ownName(&s))
		assert.Equal(t, advertised, s.AdvertiseHost, name)
	}
}
