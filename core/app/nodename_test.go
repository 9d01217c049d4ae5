package app

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
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
