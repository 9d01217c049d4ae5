package transfer

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
)

func TestListsOfASweep(t *testing.T) {
	for text, want := range map[string][]uint64{
		"4KiB..16KiB": {4096, 8192, 16384}, "1,3": {1, 3}, "64K": {65536}, "1..3,8": {1, 2, 3, 8},
	} {
		got, err := numbers("block_size", text, 1, 1<<40)
		require.NoError(t, err)
		assert.Equal(t, want, got, text)
	}
	f := &flags{sweep: true, given: func(name string) bool { return name == "threads" }, mode: "initiator", format: output.Text, unit: "GB",
		backend: "classic", protocol: "tcp,local", threads: "1..4", blocks: "1", duration: 10, rounds: 1, buffer: 1}
	j, err := f.job([]string{"tcp"})
	require.NoError(t, err)
	assert.Len(t, j.loads, 2*15*1*3)
	assert.Equal(t, time.Second, j.round)
	assert.True(t, j.check)
	assert.Equal(t, []string{"tcp", "local"}, j.transports)
}

func TestMatrixOnTheCommandLine(t *testing.T) {
	f := &flags{mode: "initiator", matrix: ` {"cpu:0":[["mlx5_0"],[]]}`, device: "mlx5_0, mlx5_1", autoDiscovery: true}
	b := &run{f: f}
	require.NoError(t, b.configure())
	text, err := os.ReadFile(b.cfg.Store.TopologyFile)
	require.NoError(t, err)
	assert.Equal(t, f.matrix, string(text))
	assert.Equal(t, []string{"mlx5_0", "mlx5_1"}, b.cfg.Store.DeviceNames)
	assert.Equal(t, "on", b.cfg.Store.AutoDiscovery)
	b.close()
	_, err = os.Stat(b.cfg.Store.TopologyFile)
	require.ErrorIs(t, err, os.ErrNotExist)

	f.matrix = "/etc/matrix.json"
	b = &run{f: f}
	require.NoError(t, b.configure())
	assert.Equal(t, "/etc/matrix.json", b.cfg.Store.TopologyFile)
}
