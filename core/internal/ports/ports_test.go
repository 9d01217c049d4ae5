package ports

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config"
)

func TestListenErrorsNameTheSetting(t *testing.T) {
	ln, err := Listen(t.Context(), nil, config.DoorAdmin, "admin port", "127.0.0.1", 0, "metrics_port")
	require.NoError(t, err)
	defer ln.Close()
	_, err = Listen(t.Context(), nil, config.DoorAdmin, "admin port", "127.0.0.1", ln.Addr().(*net.TCPAddr).Port, "metrics_port")
	assert.ErrorContains(t, err, "address already in use")
	assert.ErrorContains(t, err, "--metrics_port")
	_, err = Listen(t.Context(), nil, config.DoorAdmin, "admin port", "203.0.113.1", 0, "metrics_port")
	assert.ErrorContains(t, err, "does not have the address")
}

func TestListenOnIPv6(t *testing.T) {
	for _, host := range []string{"::1", "[::1]", "::", "[::]"} {
		ln, err := Listen(t.Context(), nil, config.DoorAdmin, "admin port", host, 0, "metrics_port")
		if err != nil && host == "::1" {
			t.Skipf("this machine has no IPv6: %v", err)
		}
		require.NoError(t, err, host)
		defer ln.Close()
		ip := ln.Addr().(*net.TCPAddr).IP
		assert.Nil(t, ip.To4(), "%s is bound as %s", host, ip)
	}
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

func TestPlain(t *testing.T) {
	for given, want := range map[string]string{
		"::": "::", "[::]": "::", "[::1]": "::1", "[fe80::1%lo]": "fe80::1%lo", "10.0.0.1": "10.0.0.1", "[10.0.0.1]": "[10.0.0.1]",
		"": "", "[": "[", "[]": "[]", "node-7": "node-7", "[node]": "[node]", "[::": "[::",
	} {
		assert.Equal(t, want, Plain(given), given)
	}
}

func TestAWildcardBecomesAnAddressOfThisMachine(t *testing.T) {
	assert.Equal(t, "node-7", Concrete("node-7"))
	assert.Equal(t, "10.0.0.7", Concrete("10.0.0.7"))
	assert.NotEqual(t, "0.0.0.0", Concrete("0.0.0.0"))
	assert.NotEqual(t, "::", Concrete("::"))

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
