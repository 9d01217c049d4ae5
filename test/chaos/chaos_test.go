// Package chaos runs mooncake bench chaos: faults of real processes under load.
package chaos

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/chaos"
	"github.com/mooncake-go/mooncake/test/internal/programs"
)

// bin is the folder with the program.
var bin string

func TestMain(m *testing.M) {
	os.Exit(programs.Main(m, func(dir string) error {
		bin = dir
		return programs.Build(nil, "-o", dir+"/", "./cmd/mooncake")
	}))
}

// least is how many of 1,000 keys have to be readable after a fault. Other faults may lose all of
// them; none may give wrong bytes.
var least = map[string]int{
	"master SIGSTOP": 1000,
}

func TestNothingWrongAndLittleLost(t *testing.T) {
	programs.Long(t)
	file := filepath.Join(t.TempDir(), "chaos.json")
	out := programs.Run(t, programs.Spec{Program: filepath.Join(bin, "mooncake"), Args: []string{"bench", "chaos", "--out", file}, Limit: 20 * 60e9})
	t.Log("\n" + out.Stdout)
	text, err := os.ReadFile(file)
	require.NoError(t, err, out.Stderr)
	var rows chaos.Report
	require.NoError(t, json.Unmarshal(text, &rows))
	require.Len(t, rows, len(chaos.Faults()))
	for _, r := range rows {
		assert.Zero(t, r.Wrong, r.Fault)
		assert.GreaterOrEqual(t, r.Readable, least[r.Fault], r.Fault)
	}
	require.Zero(t, out.Code, out.Stderr)
}
