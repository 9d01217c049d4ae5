package app

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mooncake-go/mooncake/core/config"
)

func TestAWildcardBecomesAnAddressOfThisMachine(t *testing.T) {
	assert.Equal(t, "node-7", notWildcard("node-7"))
	assert.Equal(t, "10.0.0.7", notWildcard("10.0.0.7"))
	assert.NotEqual(t, "0.0.0.0", notWildcard("0.0.0.0"))
	assert.NotEqual(t, "::", notWildcard("::"))

	var addrs []net.Addr
	for _, text := range []string{"127.0.0.1/8", "fe80::1/64", "fd00::7/64", "10.1.2.3/24", "192.168.1.4/24"} {
		ip, n, err := net.ParseCIDR(text)
		assert.NoError(t, err)
		addrs = append(addrs, &net.IPNet{IP: ip, Mask: n.Mask})
	}
	assert.Equal(t, "10.1.2.3", firstReachable(addrs, false))
	assert.Equal(t, "fd00::7", firstReachable(addrs, true))
	assert.Equal(t, "127.0.0.1", firstReachable(addrs[:2], false), "link-local and loopback addresses are no use to others")
	assert.Equal(t, "::1", firstReachable(addrs[:2], true))
}

// Without a metadata service a name that says nothing of the address gets one, and port 0 is
// no port; with a service the name stays and peers are told an address.
func TestNamesOfEngines(t *testing.T) {
	v4, v6 := notWildcard("0.0.0.0"), notWildcard("::")
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
