package app

import (
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestRPCInterface(t *testing.T) {
	given := func(ifc string) config.Config {
		return config.Config{Master: config.Master{RPCInterface: ifc, RPCAddress: "0.0.0.0"}}
	}
	cfg, err := ResolveInterface(given(""))
	require.NoError(t, err)
	assert.Equal(t, "0.0.0.0", cfg.Master.RPCAddress)
	cfg, err = ResolveInterface(given("lo"))
	require.NoError(t, err)
	assert.Equal(t, "127.0.0.1", cfg.Master.RPCAddress)
	_, err = ResolveInterface(given("nosuch0"))
	assert.ErrorContains(t, err, "master.rpc_interface")
	assert.ErrorContains(t, err, "nosuch0")
	assert.ErrorContains(t, err, "ip -brief addr")
	assert.False(t, errs.Is(err, errs.InvalidParams), "it is the machine that is not as the configuration says: exit code 1")
}

func TestPickAddress(t *testing.T) {
	for _, c := range []struct {
		name  string
		addrs []string
		want  string
	}{
		{"IPv4 first of all", []string{"fe80::1/64", "2001:db8::7/64", "10.0.0.7/24", "10.0.0.8/24"}, "10.0.0.7"},
		{"only IPv6", []string{"fe80::1/64", "2001:db8::7/64", "2001:db8::8/64"}, "2001:db8::7"},
		{"only link-local", []string{"fe80::1/64"}, "fe80::1%eth7"},
		{"mapped IPv4", []string{"::ffff:10.0.0.7/96"}, "10.0.0.7"},
	} {
		var addrs []net.Addr
		for _, text := range c.addrs {
			ip, n, err := net.ParseCIDR(text)
			require.NoError(t, err)
			addrs = append(addrs, &net.IPNet{IP: ip, Mask: n.Mask})
		}
		got, err := pickAddress("eth7", addrs)
		require.NoError(t, err, c.name)
		assert.Equal(t, c.want, got, c.name)
	}
	_, err := pickAddress("eth7", []net.Addr{&net.UnixAddr{Name: "x"}})
	assert.ErrorContains(t, err, `interface "eth7" has no address`)
}

func TestPlainHost(t *testing.T) {
	for given, want := range map[string]string{
		"::": "::", "[::]": "::", "[::1]": "::1", "[fe80::1%lo]": "fe80::1%lo", "10.0.0.1": "10.0.0.1", "[10.0.0.1]": "[10.0.0.1]",
		"": "", "[": "[", "[]": "[]", "node-7": "node-7", "[node]": "[node]", "[::": "[::",
	} {
		assert.Equal(t, want, plainHost(given), given)
	}
}

func TestListenSaysWhoToAsk(t *testing.T) {
	ln, err := listen(t.Context(), "admin port", "127.0.0.1", 0, "metrics_port")
	require.NoError(t, err)
	defer ln.Close()
	_, err = listen(t.Context(), "admin port", "127.0.0.1", ln.Addr().(*net.TCPAddr).Port, "metrics_port")
	assert.ErrorContains(t, err, "address already in use")
	assert.ErrorContains(t, err, "--metrics_port")
	_, err = listen(t.Context(), "admin port", "203.0.113.1", 0, "metrics_port")
	assert.ErrorContains(t, err, "does not have the address")
}

func TestListenOnIPv6(t *testing.T) {
	for _, host := range []string{"::1", "[::1]", "::", "[::]"} {
		ln, err := listen(t.Context(), "admin port", host, 0, "metrics_port")
		if err != nil && host == "::1" {
			t.Skipf("this machine has no IPv6: %v", err)
		}
		require.NoError(t, err, host)
		defer ln.Close()
		ip := ln.Addr().(*net.TCPAddr).IP
		assert.Nil(t, ip.To4(), "%s is bound as %s", host, ip)
	}
}

// A connection of a delayed listener has TCP_NODELAY off, which is on otherwise.
func TestDelayed(t *testing.T) {
	for _, slow := range []bool{false, true} {
		ln, err := listen(t.Context(), "master", "127.0.0.1", 0, "rpc_port")
		require.NoError(t, err)
		defer ln.Close()
		c, err := net.Dial("tcp", ln.Addr().String())
		require.NoError(t, err)
		defer c.Close()
		if slow {
			ln = delayed{ln}
		}
		accepted, err := ln.Accept()
		require.NoError(t, err)
		defer accepted.Close()
		assert.Equal(t, slow, !noDelay(t, accepted))
	}
}

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
