package topology_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/topology"
	"github.com/mooncake-go/mooncake/core/topology/recording"
	"github.com/mooncake-go/mooncake/core/topology/show"
	"github.com/mooncake-go/mooncake/sdk/matrix"
)

// built draws a machine of some switches on some nodes with NICs and GPUs below them, and
// sometimes a value that makes no sense.
func built(rt *rapid.T) *recording.Recording {
	r := recording.New()
	nodes := rapid.IntRange(0, 4).Draw(rt, "nodes")
	for n := range nodes {
		r.File(fmt.Sprintf("sys/devices/system/node/node%d/cpulist", n), fmt.Sprintf("%d-%d\n", n*8, n*8+7))
	}
	files := map[string]*rapid.Generator[string]{
		"state":      rapid.SampledFrom([]string{"4: ACTIVE", "1: DOWN", "2: INIT", "x"}),
		"rate":       rapid.SampledFrom([]string{"100 Gb/sec (4X EDR)", "2.5 Gb/sec (1X SDR)", "-"}),
		"link_layer": rapid.SampledFrom([]string{"InfiniBand", "Ethernet", ""}),
		"gids/0":     rapid.SampledFrom([]string{"fe80::1", "0000:0000"}),
	}
	count := 0
	for s := range rapid.IntRange(0, 5).Draw(rt, "switches") {
		numa := rapid.SampledFrom([]string{"-1", "0", "1", "3", "many"}).Draw(rt, "numa")
		up := fmt.Sprintf("sys/devices/pci0000:%02x/0000:%02x:01.0/0000:%02x:00.0", 16*s, 16*s, 16*s+1)
		for d := range rapid.IntRange(0, 4).Draw(rt, "devices") {
			address := fmt.Sprintf("0000:%02x:00.0", 16*s+4+d)
			dir := fmt.Sprintf("%s/0000:%02x:%02x.0/%s", up, 16*s+2, d, address)
			r.File(dir+"/numa_node", numa+"\n")
			if rapid.Bool().Draw(rt, "gpu") {
				r.Link("sys/bus/pci/devices/"+address, "../../../../"+dir)
				r.File(dir+"/class", "0x030200\n")
				r.File(dir+"/vendor", rapid.SampledFrom([]string{"0x10de\n", "0x1002\n"}).Draw(rt, "vendor"))
				continue
			}
			name := fmt.Sprintf("mlx5_%d", count)
			count++
			r.Link("sys/class/infiniband/"+name, "../../../"+dir+"/infiniband/"+name)
			for file, value := range files {
				r.File(dir+"/infiniband/"+name+"/ports/1/"+file, value.Draw(rt, file)+"\n")
			}
			if rapid.IntRange(0, 9).Draw(rt, "verbs") > 0 {
				r.Link("sys/class/infiniband_verbs/uverbs"+name[5:], "../../../"+dir+"/v")
				r.File(dir+"/v/ibdev", name+"\n")
			}
		}
	}
	return r
}

// What holds on every machine.
func TestAnyMachine(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		source := built(rt)
		m, r, err := topology.Record(source.FS())
		require.NoError(rt, err)

		// Its recording is the machine.
		var text bytes.Buffer
		_, err = r.WriteTo(&text)
		require.NoError(rt, err)
		again, err := recording.Read(&text)
		require.NoError(rt, err)
		m2, err := topology.Discover(again.FS())
		require.NoError(rt, err)
		require.Equal(rt, m, m2)

		// The choice is over usable devices; the matrix over the choice, in every entry.
		c, err := topology.Choose(m, topology.Options{})
		require.NoError(rt, err)
		require.Equal(rt, len(m.NICs), len(c.Devices)+len(c.Left))
		require.Equal(rt, len(m.Nodes)+len(m.GPUs), len(c.Matrix.Locations()))
		parsed, err := matrix.Parse([]byte(c.Matrix.String()))
		require.NoError(rt, err)
		require.ElementsMatch(rt, c.Devices, parsed.Devices())
		for _, location := range parsed.Locations() {
			e, _ := parsed.Entry(location)
			require.ElementsMatch(rt, c.Devices, append(e.Preferred, e.Available...), location)
			if !strings.HasPrefix(location, "cpu:") {
				require.Equal(rt, len(c.Devices) > 0, len(e.Preferred) > 0, "a GPU always has a nearest device")
			}
		}
		for _, a := range m.GPUs {
			for _, b := range m.NICs {
				require.Equal(rt, m.Link(a.Device, b.Device), m.Link(b.Device, a.Device))
			}
		}

		// It can be shown, and each device is in the tree once.
		var tree bytes.Buffer
		require.NoError(rt, show.Table(&bytes.Buffer{}, m, c))
		require.NoError(rt, show.Tree(&tree, m, c))
		for _, n := range m.NICs {
			require.Equal(rt, 1, strings.Count(tree.String(), "NIC "+n.Name+","), tree.String())
		}
		for _, g := range m.GPUs {
			require.Equal(rt, 1, strings.Count(tree.String(), "GPU "+g.Name+" "), tree.String())
		}
	})
}

// Whatever the settings are, the choice is some of the devices that can be used.
func TestAnyOptions(t *testing.T) {
	m := machine(t, "dgx-h100")
	list := rapid.SliceOfN(rapid.SampledFrom([]string{"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3, mlx5_4", "z", "", topology.AnyDevice}), 0, 3)
	rapid.Check(t, func(rt *rapid.T) {
		o := topology.Options{
			DeviceNames: list.Draw(rt, "names"), Filters: list.Draw(rt, "filters"), Allow: list.Draw(rt, "allow"), Deny: list.Draw(rt, "deny"),
			Auto: topology.Auto(rapid.IntRange(0, 2).Draw(rt, "auto")),
		}
		c, err := topology.Choose(m, o)
		if err != nil {
			return
		}
		require.ElementsMatch(rt, c.Devices, c.Matrix.Devices())
		for _, n := range m.NICs {
			ok, _ := n.Usable()
			if used := c.Matrix.Index(n.Name) >= 0; used {
				require.True(rt, ok, n.Name)
				require.NotContains(rt, topology.SplitNames(strings.Join(o.Deny, ",")), n.Name)
			}
		}
	})
}

// FuzzTree: no tree makes discovery, choice or drawing panic, and its recording is stable.
func FuzzTree(f *testing.F) {
	const header = "# mooncake machine recording 1\n"
	for _, name := range []string{"vm", "no-numa"} {
		var text bytes.Buffer
		_, err := record(f, name).WriteTo(&text)
		require.NoError(f, err)
		f.Add(bytes.TrimPrefix(text.Bytes(), []byte(header)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := recording.Read(io.MultiReader(strings.NewReader(header), bytes.NewReader(data)))
		if err != nil {
			return
		}
		m, copied, err := topology.Record(r.FS())
		require.NoError(t, err)
		c, err := topology.Choose(m, topology.Options{})
		require.NoError(t, err)
		var out bytes.Buffer
		require.NoError(t, show.Table(&out, m, c))
		require.NoError(t, show.Tree(&out, m, c))
		require.NotContains(t, out.String(), "\x1b", "nothing of the tree reaches the terminal as a command")
		var text bytes.Buffer
		_, err = copied.WriteTo(&text)
		require.NoError(t, err)
		again, err := recording.Read(&text)
		require.NoError(t, err, text.String())
		m2, err := topology.Discover(again.FS())
		require.NoError(t, err)
		m.Warnings, m2.Warnings = nil, nil
		require.Equal(t, m, m2, text.String())
	})
}
