package topology

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPCIAddresses(t *testing.T) {
	for s, want := range map[string]bool{
		"0000:18:00.0": true, "10000:e1:1f.7": true, "00000000:00:00.0": true, "0000:18:00.8": false, "0000:18:00": false, "000:18:00.0": false,
		"0000:18:0g.0": false, "18:00.0": false, "": false, "0000:18:00.0x": false, "0000:18-00.0": false, "pci0000:18": false,
	} {
		require.Equal(t, want, isPCI(s), s)
	}
	require.True(t, isRoot("pci0000:15"))
	require.False(t, isRoot("0000:15"))
	require.Equal(t, "a/0000:18:00.0", lastPCI("a/0000:18:00.0/virtio0/net/eth0"))
	require.Empty(t, lastPCI("sys/devices/virtual/net/lo"))
	require.Empty(t, lastPCI("."))
}

func TestLinkAndDistance(t *testing.T) {
	dev := func(way string, node int) Device {
		d := Device{Path: "sys/devices/" + way, Node: node}
		if at := lastPCI(d.Path); at != "" {
			d.PCI = at[len(at)-12:]
		}
		return d
	}
	const up = "pci0000:15/0000:15:01.0/0000:16:00.0/"
	a := dev(up+"0000:17:00.0/0000:18:00.0", 0)
	two, one := Machine{Nodes: make([]Node, 2)}, Machine{Nodes: make([]Node, 1)}
	for _, c := range []struct {
		b        Device
		distance int
		known    bool
		want     Link
		single   Link // on a machine with one node
	}{
		{a, 0, true, LinkSame, LinkSame},
		{dev(up+"0000:17:00.0/0000:18:00.1", 0), 0, true, LinkPIX, LinkPIX},
		{dev(up+"0000:17:01.0/0000:19:00.0", 0), 2, true, LinkPIX, LinkPIX},
		{dev(up+"0000:17:01.0/0000:19:00.0/0000:1a:00.0/0000:1b:00.0", 0), 4, true, LinkPXB, LinkPXB},
		{dev("pci0000:15/0000:15:02.0/0000:20:00.0", 0), 4, true, LinkPHB, LinkPHB},
		{dev("pci0000:37/0000:37:01.0/0000:38:00.0", 0), 6, true, LinkNODE, LinkNODE},
		{dev("pci0000:37/0000:37:01.0/0000:38:00.0", 1), 6, true, LinkSYS, LinkNODE},
		{dev("pci0000:37/0000:37:01.0/0000:38:00.0", -1), 6, true, LinkSYS, LinkNODE},
		{dev("virtual/infiniband/rxe0", -1), 0, false, LinkSYS, LinkNODE},
		{dev("virtual/infiniband/rxe0", 0), 0, false, LinkNODE, LinkNODE},
	} {
		for _, pair := range [][2]Device{{a, c.b}, {c.b, a}} {
			d, ok := Distance(pair[0], pair[1])
			require.Equal(t, c.known, ok, c.b.Path)
			if ok {
				require.Equal(t, c.distance, d, c.b.Path)
			}
			require.Equal(t, c.want, two.Link(pair[0], pair[1]), c.b.Path)
			require.Equal(t, c.single, one.Link(pair[0], pair[1]), c.b.Path)
		}
	}
	require.Equal(t, "NODE", LinkNODE.String())
}

func TestNaturalOrder(t *testing.T) {
	names := []string{"mlx5_10", "mlx5_2", "mlx5_bond_0", "eth0", "mlx5_2a", "mlx5_02", "a", "a0", "0", "00", ""}
	slices.SortFunc(names, natural)
	require.Equal(t, []string{"", "0", "00", "a", "a0", "eth0", "mlx5_02", "mlx5_2", "mlx5_2a", "mlx5_10", "mlx5_bond_0"}, names)
}

// A GPU near nothing on the bus takes what there is; one device off the bus is the farthest.
func TestNearestWithoutPCI(t *testing.T) {
	soft := NIC{Device: Device{Name: "rxe0", Path: "sys/devices/virtual/infiniband/rxe0", Node: -1}}
	hard := NIC{Device: Device{Name: "m0", PCI: "0000:18:00.0", Path: "sys/devices/pci0000:15/0000:18:00.0", Node: -1}}
	g := GPU{Device: Device{Name: "cuda:0", PCI: "0000:19:00.0", Path: "sys/devices/pci0000:15/0000:19:00.0", Node: -1}}
	require.Equal(t, []string{"rxe0"}, nearest(g, []NIC{soft}))
	require.Equal(t, []string{"m0"}, nearest(g, []NIC{soft, hard}))
	require.Equal(t, []string{"m0"}, nearest(g, []NIC{hard, soft}))
	require.Empty(t, nearest(g, nil))
}
