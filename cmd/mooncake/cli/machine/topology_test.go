package machine_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/cli"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/clitest"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
)

const machines = "../../../../core/topology/testdata/"

// Each output is the golden file of the package; the machine of the test has its own topology.
func TestTopology(t *testing.T) {
	for output, ending := range map[string]string{"table": ".table.txt", "tree": ".tree.txt", "matrix": ".matrix.json"} {
		want, err := os.ReadFile(machines + "dgx-h100" + ending)
		require.NoError(t, err)
		e, stdout, stderr := clitest.New()
		require.Equal(t, command.ExitOK, cli.Run(e, []string{"mooncake", "topology", "--root", machines + "dgx-h100.machine", "-o", output}), stderr.String())
		require.Equal(t, string(want), stdout.String())
		require.Empty(t, stderr.String())
	}
	e, stdout, stderr := clitest.New()
	require.Equal(t, command.ExitOK, cli.Run(e, []string{"mooncake", "topology"}), stderr.String())
	require.Contains(t, stdout.String(), "cpu:")
}

func TestTopologyOfSomeDevices(t *testing.T) {
	custom := filepath.Join(t.TempDir(), "topo.json")
	require.NoError(t, os.WriteFile(custom, []byte(`{"cuda:0":[["mlx5_3"],["mlx5_0","mlx5_6"]]}`), 0o600))
	matrix := func(args ...string) (out, warnings string) {
		e, stdout, stderr := clitest.New()
		require.Equal(t, command.ExitOK, cli.Run(e, append([]string{"mooncake", "topology", "--root", machines + "server8.machine", "-o", "matrix"}, args...)), stderr.String())
		return stdout.String(), stderr.String()
	}
	out, warnings := matrix("--device-name", "mlx5_0,mlx5_4,mlx9", "--exclude", "mlx5_4")
	assert.Contains(t, out, `{"cpu:0":[["mlx5_0"],[]],"cpu:1":[[],["mlx5_0"]],"cuda:0":[["mlx5_0"],[]]`)
	assert.Contains(t, warnings, `warning: there is no RDMA device "mlx9"; this machine has: mlx5_0, mlx5_1`)
	out, warnings = matrix("--custom-topo-json", custom, "--filters", "mlx5_6,mlx5_3")
	assert.Equal(t, `{"cuda:0":[["mlx5_3"],["mlx5_6"]]}`+"\n", out)
	assert.Empty(t, warnings)

	e, stdout, _ := clitest.New()
	require.Equal(t, command.ExitOK, cli.Run(e, []string{"mooncake", "topology", "--root", machines + "four-nics.machine", "--json"}))
	var all struct {
		Choice struct {
			Devices []string
			Left    []struct{ Device, Why string }
		}
	}
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &all))
	assert.Equal(t, []string{"mlx5_0", "mlx5_2"}, all.Choice.Devices)
	assert.Equal(t, "port 1 is DOWN", all.Choice.Left[0].Why)
}

// A recording looks as the machine does, whether it is read as a file or as a folder.
func TestTopologyRecord(t *testing.T) {
	file := filepath.Join(t.TempDir(), "machine.txt")
	e, stdout, stderr := clitest.New()
	require.Equal(t, command.ExitOK, cli.Run(e, []string{"mooncake", "topology", "--root", machines + "vm.machine", "--record", file}), stderr.String())
	assert.Contains(t, stdout.String(), "NUMA nodes: 1, RDMA devices: 1, network interfaces: 2, GPUs: 0")
	tree := func(root string) string {
		e, stdout, stderr := clitest.New()
		require.Equal(t, command.ExitOK, cli.Run(e, []string{"mooncake", "topology", "--tree", "--root", root}), stderr.String())
		return stdout.String()
	}
	require.Equal(t, tree(machines+"vm.machine"), tree(file))

	e, stdout, _ = clitest.New()
	require.Equal(t, command.ExitOK, cli.Run(e, []string{"mooncake", "topology", "--root", file, "--record", "-"}))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(text), stdout.String())

	folder := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "sys/devices/system/node/node3"), 0o750))
	assert.Equal(t, "NUMA node 3\n", tree(folder))
	e, _, stderr = clitest.New()
	require.Equal(t, command.ExitOK, cli.Run(e, []string{"mooncake", "topology", "--root", t.TempDir()}))
	assert.Contains(t, stderr.String(), "there is no /sys")
}

func TestTopologyRefuses(t *testing.T) {
	root := machines + "vm.machine"
	for want, args := range map[string][]string{
		`output format "xml" is not one of`:       {"-o", "xml"},
		"give one of them":                        {"--json", "--tree"},
		"say the same thing":                      {"-o", "json", "--tree"},
		"--root: stat nowhere":                    {"--root", "nowhere"},
		"does not begin with":                     {"--root", "topology.go"},
		"is neither a folder nor a file":          {"--root", os.DevNull},
		"(it has: mlx5_0)":                        {"--root", root, "--device-name", "mlx9"},
		"read the custom matrix \"nowhere.json\"": {"--root", root, "--custom-topo-json", "nowhere.json"},
		"takes no arguments":                      {"stray"},
	} {
		e, _, stderr := clitest.New()
		assert.Equal(t, command.ExitUsage, cli.Run(e, append([]string{"mooncake", "topology"}, args...)), want)
		assert.Contains(t, stderr.String(), want)
	}
	e, _, stderr := clitest.New()
	assert.Equal(t, command.ExitFailure, cli.Run(e, []string{"mooncake", "topology", "--record", "/nonexistent/m"}))
	assert.Contains(t, stderr.String(), "--record: open /nonexistent/m")
}

// What a node would use is what the environment and the file say, and a flag replaces it.
func TestTopologyFollowsTheConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "node.yaml")
	require.NoError(t, os.WriteFile(file, []byte("store:\n  device_exclude: [mlx5_3]\n"), 0o600))
	devices := func(environ []string, args ...string) string {
		e, stdout, stderr := clitest.New()
		e.Environ = environ
		require.Equal(t, command.ExitOK, cli.Run(e, append([]string{"mooncake", "topology", "--root", machines + "four-nics.machine", "-o", "matrix"}, args...)), stderr.String())
		return stdout.String()
	}
	assert.Equal(t, `{"cpu:0":[[],["mlx5_2"]],"cpu:1":[["mlx5_2"],[]]}`+"\n", devices([]string{"MC_TE_FILTERS=mlx5_2"}, "--config", file))
	assert.Equal(t, `{"cpu:0":[["mlx5_0"],[]],"cpu:1":[[],["mlx5_0"]]}`+"\n",
		devices([]string{"MC_MS_AUTO_DISC=1", "MOONCAKE_DEVICE=mlx5_2"}, "--config", file, "--device-name", "mlx5_0"))
}
