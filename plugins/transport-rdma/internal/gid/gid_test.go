package gid

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func of(addr string) GID {
	if addr == "" {
		return GID{}
	}
	return GID(netip.MustParseAddr(addr).As16())
}

func TestRank(t *testing.T) {
	for _, c := range []struct {
		addr, netdev string
		kind         Type
		want         int
	}{
		{"203.0.113.9", "eth0", RoCEv2, Routable},
		{"2001:db8::1", "eth0", RoCEv2, Routable},
		{"2001:db8::1", "", InfiniBand, RoutableBare},
		{"203.0.113.9", "", RoCEv2, RoutableBare},
		{"10.1.2.3", "eth0", RoCEv2, Private},
		{"172.16.0.1", "eth0", RoCEv2, Private},
		{"172.32.0.1", "eth0", RoCEv2, Routable},
		{"192.168.7.7", "eth0", RoCEv2, Routable},
		{"100.64.0.1", "eth0", RoCEv2, Private},
		{"100.128.0.1", "eth0", RoCEv2, Routable},
		{"fe80::1", "eth0", RoCEv2, Degraded},
		{"10.1.2.3", "flannel.1", RoCEv2, Degraded},
		{"203.0.113.9", "docker0", RoCEv2, Degraded},
		{"203.0.113.9", "tunl0", RoCEv2, Degraded},
		{"203.0.113.9", "tunl01", RoCEv2, Routable},
		{"10.1.2.3", "", RoCEv2, PrivateBare},
		{"fe80::1", "", InfiniBand, DegradedBare},
		{"127.0.0.1", "lo", RoCEv2, Degraded},
		{"203.0.113.9", "eth0", RoCEv1, LastResort},
		{"", "eth0", RoCEv2, Unusable},
	} {
		require.Equal(t, c.want, Rank(Entry{GID: of(c.addr), Netdev: c.netdev, Type: c.kind}), "%+v", c)
	}
}

func TestBest(t *testing.T) {
	entry := func(i int, addr, netdev string, kind Type) Entry {
		return Entry{Index: i, GID: of(addr), Netdev: netdev, Type: kind}
	}
	for name, c := range map[string]struct {
		table []Entry
		want  int
		ok    bool
	}{
		"nothing":     {nil, 0, false},
		"only zeros":  {[]Entry{entry(0, "", "eth0", RoCEv2)}, 0, false},
		"last resort": {[]Entry{entry(0, "", "", RoCEv1), entry(1, "fe80::1", "eth0", RoCEv1), entry(2, "10.0.0.1", "eth0", RoCEv1)}, 1, true},
		"a usual table": {[]Entry{
			entry(0, "fe80::1", "eth0", RoCEv1), entry(1, "fe80::1", "eth0", RoCEv2),
			entry(2, "10.0.0.1", "eth0", RoCEv1), entry(3, "10.0.0.1", "eth0", RoCEv2),
		}, 3, true},
		"private with an interface before routable overlay": {[]Entry{
			entry(3, "203.0.113.9", "vxlan.calico", RoCEv2), entry(5, "10.0.0.1", "eth0", RoCEv2),
		}, 5, true},
		"the lowest index among equals, whatever the order": {[]Entry{
			entry(7, "10.0.0.2", "eth0", RoCEv2), entry(3, "10.0.0.1", "eth0", RoCEv2),
		}, 3, true},
	} {
		got, ok := Best(c.table)
		require.Equal(t, c.ok, ok, name)
		require.Equal(t, c.want, got.Index, name)
	}
}

func TestText(t *testing.T) {
	g := of("10.77.0.1")
	require.Equal(t, "00:00:00:00:00:00:00:00:00:00:ff:ff:0a:4d:00:01", g.String())
	for _, bad := range []string{"", "00", g.String() + ":", "zz" + g.String()[2:], "00-" + g.String()[3:]} {
		_, err := Parse(bad)
		require.Error(t, err, bad)
	}
	rapid.Check(t, func(t *rapid.T) {
		g := GID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "gid"))
		back, err := Parse(g.String())
		require.NoError(t, err)
		require.Equal(t, g, back)
	})
}

func TestZero(t *testing.T) {
	for want, addrs := range map[bool][]GID{
		true:  {{}, {0: 0xfe, 1: 0x80}},
		false: {{15: 1}, {0: 0xfe, 1: 0x80, 15: 1}},
	} {
		for _, g := range addrs {
			require.Equal(t, want, g.Zero(), "%s", g)
		}
	}
}
