package topology_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/topology"
	"github.com/mooncake-go/mooncake/core/topology/recording"
	"github.com/mooncake-go/mooncake/core/topology/show"
)

var update = flag.Bool("update", false, "write the golden files")

func record(t testing.TB, name string) *recording.Recording {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name+".machine"))
	require.NoError(t, err)
	defer f.Close()
	r, err := recording.Read(f)
	require.NoError(t, err)
	return r
}

func machine(t testing.TB, name string) topology.Machine {
	t.Helper()
	m, err := topology.Discover(record(t, name).FS())
	require.NoError(t, err)
	return m
}

func names() []string {
	files, _ := filepath.Glob("testdata/*.machine")
	for i, f := range files {
		files[i] = strings.TrimSuffix(filepath.Base(f), ".machine")
	}
	return files
}

// Each recorded machine as an operator sees it: the tables, the tree, the matrix.
func TestRecordedMachines(t *testing.T) {
	require.GreaterOrEqual(t, len(names()), 7)
	for _, name := range names() {
		t.Run(name, func(t *testing.T) {
			m := machine(t, name)
			require.Empty(t, m.Warnings)
			c, err := topology.Choose(m, topology.Options{})
			require.NoError(t, err)
			for ending, write := range map[string]func(io.Writer) error{
				"table.txt":   func(w io.Writer) error { return show.Table(w, m, c) },
				"tree.txt":    func(w io.Writer) error { return show.Tree(w, m, c) },
				"matrix.json": func(w io.Writer) error { return show.Matrix(w, c) },
			} {
				var got bytes.Buffer
				require.NoError(t, write(&got))
				file := filepath.Join("testdata", name+"."+ending)
				if *update {
					require.NoError(t, os.WriteFile(file, got.Bytes(), 0o600))
				}
				want, err := os.ReadFile(file)
				require.NoError(t, err)
				require.Equal(t, string(want), got.String())
			}
			var js bytes.Buffer
			require.NoError(t, show.JSON(&js, m, c))
			var back struct {
				Machine topology.Machine
				Choice  struct{ Matrix json.RawMessage }
			}
			require.NoError(t, json.Unmarshal(js.Bytes(), &back))
			require.Equal(t, m.NICs, back.Machine.NICs)
			require.Equal(t, m.GPUs, back.Machine.GPUs)
			require.JSONEq(t, c.Matrix.String(), string(back.Choice.Matrix))
		})
	}
}

// On the large server NIC i and GPU i are below one switch, and all else is farther.
func TestPairsOfTheServer(t *testing.T) {
	m := machine(t, "server8")
	require.Len(t, m.NICs, 8)
	require.Len(t, m.GPUs, 8)
	for i, g := range m.GPUs {
		for j, n := range m.NICs {
			want := topology.LinkSYS
			switch {
			case i == j:
				want = topology.LinkPIX
			case i/4 == j/4:
				want = topology.LinkNODE
			}
			require.Equal(t, want, m.Link(g.Device, n.Device), "%s %s", g.Name, n.Name)
		}
		e, ok := m.Matrix([]string{"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_7"}).Entry(g.Name)
		require.True(t, ok)
		require.Equal(t, []string{m.NICs[i].Name}, e.Preferred)
		require.Len(t, e.Available, 7)
	}
	require.Equal(t, topology.Port{Number: 1, State: "ACTIVE", LinkLayer: "InfiniBand", Rate: 400e9, Netdev: "ibp24s0", Address: true}, m.NICs[0].Ports[0])
	require.Equal(t, topology.Node{ID: 1, CPUs: "56-111,168-223", Memory: 1 << 40, Distances: []int{21, 10}}, m.Nodes[1])
	require.Equal(t, uint64(400e9), m.NICs[3].Rate())
	// Without its own NIC a GPU takes those of its node that are equally near.
	e, _ := m.Matrix([]string{"mlx5_1", "mlx5_2", "mlx5_6"}).Entry("cuda:0")
	require.Equal(t, []string{"mlx5_1", "mlx5_2"}, e.Preferred)
	// Without one on its node it takes those at the least distance.
	e, _ = m.Matrix([]string{"mlx5_6", "mlx5_7"}).Entry("cuda:0")
	require.Equal(t, []string{"mlx5_6", "mlx5_7"}, e.Preferred)
	require.Empty(t, e.Available)
}

// A recording of a machine is the machine, for every way in which it can be read.
func TestRecordingIsTheMachine(t *testing.T) {
	for _, name := range names() {
		m, r, err := topology.Record(record(t, name).FS())
		require.NoError(t, err)
		var text bytes.Buffer
		n, err := r.WriteTo(&text)
		require.NoError(t, err)
		require.EqualValues(t, text.Len(), n)
		again, err := recording.Read(&text)
		require.NoError(t, err)
		m2, err := topology.Discover(again.FS())
		require.NoError(t, err)
		require.Equal(t, m, m2, name)
		require.Equal(t, machine(t, name), m)
	}
}

// The machine that the tests run on, whatever it is.
func TestThisMachine(t *testing.T) {
	m, r, err := topology.Record(os.DirFS("/"))
	require.NoError(t, err)
	require.NotEmpty(t, m.Nodes)
	again, err := topology.Discover(r.FS())
	require.NoError(t, err)
	again.Warnings, m.Warnings = nil, nil
	require.Equal(t, m, again)
	_, err = topology.Choose(m, topology.Options{})
	require.NoError(t, err)
}
