package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/bench/report"
	"github.com/mooncake-go/mooncake/bench/works"
)

func TestParse(t *testing.T) {
	o, err := parse([]string{"-only", "idle, tcp", "-rounds", "7", "-full", "-out", "x.json"})
	require.NoError(t, err)
	require.Equal(t, 7, o.Rounds)
	require.True(t, o.Full)
	require.Equal(t, []string{"idle", "tcp"}, []string{o.chosen[0].Name, o.chosen[1].Name})
	o, err = parse(nil)
	require.NoError(t, err)
	require.Len(t, o.chosen, len(works.All()))

	for _, args := range [][]string{{"-only", "nothing"}, {"-rounds", "0"}, {"-seconds", "0"}, {"-seconds", "NaN"}, {"idle"}, {"-what"}} {
		_, err := parse(args)
		require.Error(t, err, "%q", args)
	}
}

func TestListNamesEveryWork(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, list(&out))
	for _, w := range works.All() {
		require.Contains(t, out.String(), w.Name)
		require.Contains(t, out.String(), w.Summary)
	}
}

func TestRowsGoIntoTheFile(t *testing.T) {
	o := options{out: filepath.Join(t.TempDir(), "rows.json")}
	rows := []report.Row{report.Compare("w", report.GBps, report.Fixed("ours", 1), report.Absent("peer", "gone"), 0)}
	require.NoError(t, o.write(rows))
	text, err := os.ReadFile(o.out)
	require.NoError(t, err)
	require.JSONEq(t, `[{"work":"w","ours":1,"peer":null,"peer_name":"peer: MISSING: gone","ratio":null,"goal":null,"unit":"GB/s"}]`, string(text))
	o.out = filepath.Join(t.TempDir(), "no", "folder")
	require.Error(t, o.write(rows))
}

func TestADriverThatThereIsNot(t *testing.T) {
	require.ErrorContains(t, run(t.Context(), []string{"drive-away"}), `there is no driver "drive-away"`)
}
