package topology

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// tree makes a file system of "path: text" and "path -> target" lines.
func tree(lines ...string) fstest.MapFS {
	root := fstest.MapFS{}
	for _, l := range lines {
		if name, target, ok := strings.Cut(l, " -> "); ok {
			root[name] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
		} else if name, text, ok := strings.Cut(l, ": "); ok {
			root[name] = &fstest.MapFile{Data: []byte(text + "\n"), Mode: 0o444}
		}
	}
	return root
}

func found(t testing.TB, root fs.FS) Machine {
	t.Helper()
	m, err := Discover(root)
	require.NoError(t, err)
	return m
}

const (
	pciDir = "sys/devices/pci0000:17/0000:17:00.0/0000:18:00.0"
	ibDir  = pciDir + "/infiniband/m0"
)

// nic is one device, with lines of its own put over it.
func nic(lines ...string) fstest.MapFS {
	return tree(slices.Concat([]string{
		"sys/class/infiniband/m0 -> ../../devices/pci0000:17/0000:17:00.0/0000:18:00.0/infiniband/m0",
		pciDir + "/numa_node: 0", ibDir + "/ports/1/state: 4: ACTIVE", ibDir + "/ports/1/rate: 100 Gb/sec (4X EDR)",
		ibDir + "/ports/1/link_layer: Ethernet", ibDir + "/ports/1/gids/0: 0000:0000:0000:0000:0000:0000:0000:0000",
		ibDir + "/ports/1/gids/10: fe80:0000:0000:0000:0000:0000:0000:0001",
		"sys/class/infiniband_verbs/uverbs0 -> ../../devices/pci0000:17/0000:17:00.0/0000:18:00.0/infiniband_verbs/uverbs0",
		pciDir + "/infiniband_verbs/uverbs0/ibdev: m0", "dev/infiniband/uverbs0: ",
	}, lines)...)
}

func TestOneDevice(t *testing.T) {
	m := found(t, nic())
	require.Equal(t, []NIC{{
		Device: Device{Name: "m0", PCI: "0000:18:00.0", Path: pciDir, Node: 0},
		Ports:  []Port{{Number: 1, State: "ACTIVE", LinkLayer: "Ethernet", Rate: 100e9, Address: true}}, File: true,
	}}, m.NICs)
	require.Empty(t, m.Warnings)
	require.Len(t, m.Nodes, 1, "a kernel without NUMA")
	ok, why := m.NICs[0].Usable()
	require.True(t, ok, why)
}

func TestDeviceVariants(t *testing.T) {
	for _, c := range []struct {
		name    string
		lines   []string
		change  func(fstest.MapFS)
		why     string // not usable
		warning string
		check   func(*testing.T, NIC)
	}{
		{name: "garbage in numa_node", lines: []string{pciDir + "/numa_node: many\x07"}, warning: "numa_node: it is not text", check: func(t *testing.T, n NIC) { require.Equal(t, NoNode, n.Node) }},
		{name: "large numa_node", lines: []string{pciDir + "/numa_node: 4096"}, warning: `"4096" is not a number from -1 to 1023`, check: func(t *testing.T, n NIC) { require.Equal(t, NoNode, n.Node) }},
		{name: "several lines", lines: []string{pciDir + "/numa_node: 1\n2"}, warning: "it is not one line"},
		{name: "huge file", lines: []string{pciDir + "/numa_node: " + strings.Repeat("1", maxFile)}, warning: "more than 65536 bytes"},
		{name: "down", lines: []string{ibDir + "/ports/1/state: 1: DOWN"}, why: "port 1 is DOWN"},
		{name: "no state", lines: []string{ibDir + "/ports/1/state: ACTIVE"}, why: "the state of port 1 cannot be read"},
		{name: "no address", change: func(r fstest.MapFS) { delete(r, ibDir+"/ports/1/gids/10") }, why: "port 1 has no address (GID)"},
		{name: "no file", change: func(r fstest.MapFS) { delete(r, "dev/infiniband/uverbs0"); r["dev/null"] = &fstest.MapFile{} }, why: "device file"},
		{name: "no /dev at all", change: func(r fstest.MapFS) { delete(r, "dev/infiniband/uverbs0") }},
		{name: "no uverbs", change: func(r fstest.MapFS) { delete(r, "sys/class/infiniband_verbs/uverbs0") }, why: "device file"},
		{name: "second port", lines: []string{ibDir + "/ports/1/state: 1: DOWN", ibDir + "/ports/2/state: 4: ACTIVE", ibDir + "/ports/2/gids/0: fe80::1", ibDir + "/ports/2/rate: 12.5 Gb/sec (1X HDR)", ibDir + "/ports/x/state: 4: ACTIVE"},
			check: func(t *testing.T, n NIC) {
				require.Len(t, n.Ports, 2)
				require.Equal(t, uint64(12.5e9), n.Rate())
			}},
		{name: "rate", lines: []string{ibDir + "/ports/1/rate: fast"}, warning: `"fast" is not a rate`, check: func(t *testing.T, n NIC) { require.Zero(t, n.Rate()) }},
		{name: "rate NaN", lines: []string{ibDir + "/ports/1/rate: NaN Gb/sec"}, warning: "is not a rate"},
		{name: "interface of the address", lines: []string{ibDir + "/ports/1/gid_attrs/ndevs/0: bond0", pciDir + "/net/e0/dev_port: 0"}, check: func(t *testing.T, n NIC) { require.Equal(t, "bond0", n.Ports[0].Netdev) }},
		{name: "interface of the port", lines: []string{pciDir + "/net/e0/dev_port: 1", pciDir + "/net/e1/dev_port: 0"}, check: func(t *testing.T, n NIC) { require.Equal(t, "e1", n.Ports[0].Netdev) }},
		{name: "only interface", lines: []string{pciDir + "/net/e7/operstate: up"}, check: func(t *testing.T, n NIC) { require.Equal(t, "e7", n.Ports[0].Netdev) }},
		{name: "interface of a soft device", lines: []string{ibDir + "/parent: eth3"}, check: func(t *testing.T, n NIC) { require.Equal(t, "eth3", n.Ports[0].Netdev) }},
		{name: "escape sequence", lines: []string{ibDir + "/ports/1/link_layer: \x1b[31mEthernet"}, warning: "link_layer: it is not text", check: func(t *testing.T, n NIC) { require.Empty(t, n.Ports[0].LinkLayer) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := nic(c.lines...)
			if c.change != nil {
				c.change(root)
			}
			m := found(t, root)
			require.Len(t, m.NICs, 1)
			ok, why := m.NICs[0].Usable()
			require.Equal(t, c.why == "", ok, why)
			require.Contains(t, why, c.why)
			if c.warning == "" {
				require.Empty(t, m.Warnings)
			} else {
				require.Len(t, m.Warnings, 1)
				require.Contains(t, m.Warnings[0], c.warning)
				require.Less(t, len(m.Warnings[0]), 300)
			}
			if c.check != nil {
				c.check(t, m.NICs[0])
			}
		})
	}
}

func TestLinksThatLeadAstray(t *testing.T) {
	for _, target := range []string{"m0", "../infiniband/m0", "../../../../../../etc/passwd", "nowhere", "/nowhere", "a b", "\x1b[2J", ""} {
		m := found(t, tree("sys/class/infiniband/m0 -> "+target))
		require.Empty(t, m.NICs, target)
		require.NotEmpty(t, m.Warnings, target)
	}
	// Long chains end; one that is absolute stays below the root.
	lines := []string{"sys/class/infiniband/m0 -> /c0", "c60/ports/1/state: 4: ACTIVE"}
	for i := range 60 {
		lines = append(lines, fmt.Sprintf("c%d -> c%d", i, i+1))
	}
	require.Contains(t, found(t, tree(lines...)).Warnings[0], "more than 40 links")
	m := found(t, tree("sys/class/infiniband/m0 -> /c55", lines[1], lines[57], lines[58], lines[59], lines[60], lines[61]))
	require.Equal(t, "c60", m.NICs[0].Path)
}

// A real folder that holds what no sysfs would: nothing blocks, leaves the root or breaks.
func TestHostileFolder(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string {
		full := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o750))
		return full
	}
	require.NoError(t, os.Symlink("loop", at("sys/class/infiniband/loop")))
	require.NoError(t, os.Symlink("../../../../../../../../../../etc", at("sys/class/infiniband/out")))
	require.NoError(t, os.Symlink("/etc", at("sys/class/infiniband/absolute")))
	require.NoError(t, os.MkdirAll(at("sys/class/infiniband/m0/ports/1/state"), 0o750))
	require.NoError(t, syscall.Mkfifo(at("sys/class/infiniband/m0/ports/1/rate"), 0o600))
	require.NoError(t, os.WriteFile(at("sys/class/infiniband/bad\nname"), nil, 0o600))
	huge := at("sys/devices/system/node/node0/meminfo")
	require.NoError(t, os.WriteFile(huge, nil, 0o600))
	require.NoError(t, os.Truncate(huge, 1<<40))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	for _, tree := range []fs.FS{os.DirFS(dir), root.FS()} {
		m := found(t, tree)
		require.Len(t, m.NICs, 1)
		require.Equal(t, []Port{{Number: 1}}, m.NICs[0].Ports)
		require.Equal(t, []Node{{}}, m.Nodes)
		require.Contains(t, strings.Join(m.Warnings, "\n"), `"bad\nname" is not the name of a device`)
	}
}

func TestManyEntriesAreBounded(t *testing.T) {
	root := nic()
	for i := range maxList + 5 {
		root[fmt.Sprintf("sys/class/infiniband/x%d/node", i)] = &fstest.MapFile{}
	}
	m := found(t, root)
	require.Len(t, m.NICs, maxList)
	require.Contains(t, m.Warnings[0], "1030 RDMA devices")
	c, err := Choose(m, Options{})
	require.NoError(t, err)
	require.Equal(t, []string{"m0"}, c.Devices)

	l := &look{root: root, notes: discard{}, looks: maxLooks - 3}
	l.nics()
	require.LessOrEqual(t, l.looks, maxLooks+3*maxList, "past the bound each call ends at once")
	require.Contains(t, strings.Join(l.warnings, " "), "larger than any machine's")
}

func TestGPUs(t *testing.T) {
	gpu := func(address, class, vendor string, more ...string) []string {
		dir := "sys/devices/pci0000:80/" + address
		lines := []string{
			"sys/bus/pci/devices/" + address + " -> ../../../devices/pci0000:80/" + address,
			dir + "/class: " + class, dir + "/vendor: " + vendor, dir + "/device: 0x1234", dir + "/numa_node: -1",
		}
		for _, m := range more {
			lines = append(lines, dir+"/"+m)
		}
		return lines
	}
	m := found(t, tree(slices.Concat(
		gpu("0000:91:00.0", "0x030200", "0x10de"), gpu("0000:81:00.0", "0x030000", "0x10de"),
		gpu("0000:82:00.0", "0x030000", "0x1a03"), gpu("0000:83:00.0", "0x120000", "0x1002"), gpu("0000:84:00.0", "0x038000", "0x1002"),
		gpu("0000:85:00.0", "0x030200", "0x1ed5"), gpu("0000:86:00.0", "0x120000", "0x19e5"), gpu("0000:87:00.0", "0x020000", "0x10de"),
		gpu("0000:88:00.0", "0x030200", "0x10de", "driver -> ../../../bus/pci/drivers/vfio-pci"), []string{"sys/bus/pci/drivers/vfio-pci/bind: "},
		gpu("0000:89:00.4", "0x030200", "0x10de", "physfn -> ../0000:81:00.0"), gpu("0000:8a:00.0", "0x0302", "0x9999"), gpu("0000:8b:00.0", "", "0x10de"),
		gpu("10000:80:00.0", "0x030200", "0x10de"),
	)...))
	var got []string
	for _, g := range m.GPUs {
		got = append(got, g.Name+" "+g.PCI)
	}
	require.Equal(t, []string{
		"cuda:0 0000:81:00.0", "hip:0 0000:83:00.0", "hip:1 0000:84:00.0", "musa:0 0000:85:00.0", "npu:0 0000:86:00.0",
		"maca:0 0000:8a:00.0", "cuda:1 0000:91:00.0", "cuda:2 10000:80:00.0",
	}, got)
	require.Equal(t, "10de:1234", m.GPUs[0].Model)
	require.Empty(t, m.Warnings)
}

func TestNodesAndInterfaces(t *testing.T) {
	m := found(t, tree(
		"sys/devices/system/node/node10/cpulist: 8-15", "sys/devices/system/node/node10/distance: 12 10", "sys/devices/system/node/node2/cpulist: 0-7",
		"sys/devices/system/node/node2/distance: 10 x", "sys/devices/system/node/node02/cpulist: 1", "sys/devices/system/node/node9999/cpulist: 1", "sys/devices/system/node/online: 2,10",
		"sys/class/net/eth0 -> ../../devices/pci0000:00/0000:00:03.0/virtio2/net/eth0", "sys/devices/pci0000:00/0000:00:03.0/virtio2/net/eth0/operstate: up",
		"sys/devices/pci0000:00/0000:00:03.0/virtio2/net/eth0/speed: -1", "sys/class/net/lo -> ../../devices/virtual/net/lo", "sys/devices/virtual/net/lo/operstate: unknown",
	))
	require.Equal(t, []Node{{ID: 2, CPUs: "0-7"}, {ID: 10, CPUs: "8-15", Distances: []int{12, 10}}}, m.Nodes)
	require.Len(t, m.Warnings, 1)
	require.Equal(t, []Net{{Device: Device{Name: "eth0", PCI: "0000:00:03.0", Path: "sys/devices/pci0000:00/0000:00:03.0", Node: -1}, State: "up"}}, m.Nets)
	m = found(t, tree("sys/devices/system/cpu/online: 0-3", "proc/meminfo: MemTotal:  1024 kB"))
	require.Equal(t, []Node{{CPUs: "0-3", Memory: 1 << 20}}, m.Nodes)
}

// What peers could reach the machine at does not get into a recording.
func TestRecordingHidesAddresses(t *testing.T) {
	const secret = "2001:0db8:0000:0000:0000:0000:dead:beef"
	_, r, err := Record(nic(ibDir+"/ports/1/gids/10: "+secret, pciDir+"/net/e0/dev_port: 0", pciDir+"/net/e0/address: 02:00:00:00:be:ef"))
	require.NoError(t, err)
	var text strings.Builder
	_, err = r.WriteTo(&text)
	require.NoError(t, err)
	require.Contains(t, text.String(), "gids/10\n0000:0000:0000:0000:0000:0000:0000:0001\n")
	require.NotContains(t, text.String(), "ef")
}

type noLinks struct{ fs.FS }

func TestRootNeedsLinks(t *testing.T) {
	_, err := Discover(noLinks{nic()})
	require.True(t, errs.Is(err, errs.NotSupported), err)
}
