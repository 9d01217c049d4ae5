package topology

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/matrix"
)

// four is a machine with a1 and a2 on node 0, b1 on node 1, and b2 whose port is down.
func four() Machine {
	nic := func(name string, node int, state string) NIC {
		return NIC{Device: Device{Name: name, Node: node, Path: name}, Ports: []Port{{Number: 1, State: state, Address: true}}, File: true}
	}
	return Machine{
		Nodes: []Node{{ID: 0}, {ID: 1}},
		NICs:  []NIC{nic("a1", 0, "ACTIVE"), nic("a2", 0, "ACTIVE"), nic("b1", 1, "ACTIVE"), nic("b2", 1, "DOWN")},
	}
}

func custom(t *testing.T, text string) *matrix.Matrix {
	t.Helper()
	m, err := matrix.Parse([]byte(text))
	require.NoError(t, err)
	return &m
}

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		name    string
		options Options
		devices string
		left    string // of the devices that are not used, "device: why"
		warning string // the only one
		err     string
		code    errs.Code
	}{
		{name: "all", devices: "a1 a2 b1", left: "b2: port 1 is DOWN"},
		{name: "empty names", options: Options{DeviceNames: []string{"", " "}}, devices: "a1 a2 b1", left: "b2: port 1 is DOWN"},
		{name: "named", options: Options{DeviceNames: []string{"b1, a1"}}, devices: "a1 b1", left: "a2: not among the device names, b2: not among the device names"},
		{name: "auto-discovery", options: Options{DeviceNames: []string{AnyDevice}, Filters: []string{"a2"}}, devices: "a2"},
		{name: "named and down", options: Options{DeviceNames: []string{"b1", "b2"}}, devices: "b1", warning: "b2 is not used: port 1 is DOWN"},
		{name: "unknown name", options: Options{DeviceNames: []string{"a1", "z"}}, devices: "a1", warning: `there is no RDMA device "z"; this machine has: a1, a2, b1, b2`},
		{name: "only unknown names", options: Options{DeviceNames: []string{"z"}}, err: "it has: a1, a2, b1, b2", code: errs.InvalidParams},
		{name: "only down", options: Options{DeviceNames: []string{"b2"}}, err: "b2: port 1 is DOWN", code: errs.UnavailableInCurrentStatus},
		{name: "auto overrides names", options: Options{DeviceNames: []string{"b2"}, Auto: AutoOn}, devices: "a1 a2 b1", warning: "device names b2 are ignored: discovery is on"},
		{name: "auto with filters", options: Options{DeviceNames: []string{"b2"}, Auto: AutoOn, Filters: []string{"b1,a2"}}, devices: "a2 b1", warning: "are ignored"},
		{name: "filters without auto", options: Options{DeviceNames: []string{"a1"}, Filters: []string{"b1"}}, devices: "a1", warning: "MC_MS_FILTERS has no effect"},
		{name: "filter of nothing", options: Options{Filters: []string{"z"}}, err: "leave none", code: errs.InvalidParams},
		{name: "off", options: Options{Auto: AutoOff}, err: "discovery is off and no device is named", code: errs.InvalidParams},
		{name: "off with names", options: Options{Auto: AutoOff, DeviceNames: []string{"a1"}}, devices: "a1"},
		{name: "allow", options: Options{DeviceNames: []string{"a1", "a2"}, Allow: []string{"a2", "b1"}}, devices: "a2"},
		{name: "deny", options: Options{Deny: []string{"a1", "b2"}}, devices: "a2 b1", left: "a1: in MC_TE_FILTERS_EXCLUDE, b2: in MC_TE_FILTERS_EXCLUDE"},
		{name: "deny the unknown", options: Options{Deny: []string{"z"}}, devices: "a1 a2 b1", warning: `there is no RDMA device "z"`},
		{name: "deny everything", options: Options{Deny: []string{"a1,a2,b1,b2"}}, devices: ""},
		{name: "custom", options: Options{Custom: custom(t, `{"cpu:0":[["b1"],["a1"]]}`)}, devices: "a1 b1"},
		{name: "custom without devices", options: Options{Custom: custom(t, `{}`)}, devices: ""},
		{name: "custom of others", options: Options{Custom: custom(t, `{"cpu:0":[["z"],[]]}`)}, err: "leave none", code: errs.InvalidParams},
		{name: "custom and names", options: Options{DeviceNames: []string{"a1"}, Custom: custom(t, `{"cpu:0":[["b1"],["a1"]]}`)}, devices: "a1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := four()
			got, err := Choose(m, c.options)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.True(t, errs.Is(err, c.code), "%v", err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.devices, strings.Join(got.Devices, " "))
			require.ElementsMatch(t, got.Devices, got.Matrix.Devices(), "the matrix is over the devices that are used")
			require.Len(t, got.Left, 4-len(got.Devices))
			if c.left != "" {
				var left []string
				for _, l := range got.Left {
					left = append(left, l.Device+": "+l.Why)
				}
				require.Equal(t, c.left, strings.Join(left, ", "))
			}
			if c.warning == "" {
				require.Empty(t, got.Warnings)
			} else {
				require.Len(t, got.Warnings, 1)
				require.Contains(t, got.Warnings[0], c.warning)
			}
		})
	}
}

func TestCustomMatrixReplacesTheMachines(t *testing.T) {
	got, err := Choose(four(), Options{Custom: custom(t, `{"cpu:0":[["b1","b2"],["a1"]],"cuda:7":[["a1"],[]]}`)})
	require.NoError(t, err)
	require.Equal(t, `{"cpu:0":[["b1"],["a1"]],"cuda:7":[["a1"],[]]}`, got.Matrix.String())
	got, err = Choose(four(), Options{})
	require.NoError(t, err)
	require.Equal(t, `{"cpu:0":[["a1","a2"],["b1"]],"cpu:1":[["b1"],["a1","a2"]]}`, got.Matrix.String())
}

func TestChooseOnAMachineWithoutDevices(t *testing.T) {
	none := Machine{Nodes: []Node{{ID: 0}}}
	got, err := Choose(none, Options{Deny: []string{"z"}})
	require.NoError(t, err)
	require.Empty(t, got.Devices)
	require.Equal(t, `{"cpu:0":[[],[]]}`, got.Matrix.String())
	require.Contains(t, got.Warnings[0], "this machine has: none")
	_, err = Choose(none, Options{DeviceNames: []string{"m0"}})
	require.True(t, errs.Is(err, errs.InvalidParams))
	require.ErrorContains(t, err, "this machine has no RDMA device")
}

func TestReadMatrix(t *testing.T) {
	file := filepath.Join(t.TempDir(), "topo.json")
	_, err := ReadMatrix(file)
	require.True(t, errs.Is(err, errs.InvalidParams))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(file, []byte("{\n  \"cpu:0\": [[\"m0\"], []]\n}\n"), 0o600))
	m, err := ReadMatrix(file)
	require.NoError(t, err)
	require.Equal(t, []string{"m0"}, m.Devices())
	require.NoError(t, os.WriteFile(file, []byte(`{"cpu:0":[["m0"]]}`), 0o600))
	_, err = ReadMatrix(file)
	require.True(t, errs.Is(err, errs.DeserializeFail))
	require.ErrorContains(t, err, file)
	require.NoError(t, os.Truncate(file, 1<<40))
	_, err = ReadMatrix(file)
	require.ErrorContains(t, err, "more than")
	_, err = ReadMatrix(filepath.Dir(file))
	require.True(t, errs.Is(err, errs.InvalidParams), "a folder")
}
