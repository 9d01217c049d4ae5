package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/bench/compare"
	"github.com/mooncake-go/mooncake/bench/workloads"
)

// execute runs the program.
func execute(t *testing.T, args ...string) error {
	t.Helper()
	cmd := root()
	cmd.SetArgs(args)
	cmd.SetOut(io.Discard)
	cmd.SetErr(io.Discard)
	return cmd.ExecuteContext(t.Context())
}

func TestWorkloadsAreChosenByName(t *testing.T) {
	got, err := choose([]string{"idle", " tcp"})
	require.NoError(t, err)
	require.Equal(t, []string{"idle", "tcp"}, []string{got[0].Name, got[1].Name})
	got, err = choose(nil)
	require.NoError(t, err)
	require.Len(t, got, len(workloads.All()))
}

func TestWrongFlagsAreRefused(t *testing.T) {
	for _, args := range [][]string{{"--only", "nothing"}, {"--rounds", "0"}, {"--seconds", "0"}, {"--seconds", "NaN"}, {"idle"}, {"--what"}} {
		require.Error(t, execute(t, append([]string{"peers"}, args...)...), "%q", args)
	}
}

func TestHelpNamesEveryWorkload(t *testing.T) {
	for _, w := range workloads.All() {
		require.Contains(t, peers().Long, w.Name)
		require.Contains(t, peers().Long, w.Summary)
	}
}

func TestRowsGoIntoTheFile(t *testing.T) {
	o := comparison{out: filepath.Join(t.TempDir(), "rows.json")}
	rows := []compare.Row{compare.NewRow("w", compare.GBps, compare.Fixed("ours", 1), compare.Absent("peer", "gone"), 0)}
	require.NoError(t, o.write(rows))
	text, err := os.ReadFile(o.out)
	require.NoError(t, err)
	require.JSONEq(t, `[{"work":"w","ours":1,"peer":null,"peer_name":"peer: MISSING: gone","ratio":null,"goal":null,"unit":"GB/s",
		"cpu_ours":null,"cpu_peer":null,"cpu_ratio":null,"cpu_goal":null,"cpu_unit":""}]`, string(text))
	o.out = filepath.Join(t.TempDir(), "no", "folder")
	require.Error(t, o.write(rows))
}

func TestAnUnknownDriverIsRefused(t *testing.T) {
	require.ErrorContains(t, execute(t, "driver", "away"), `there is no driver "away"`)
}
