package bench_test

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
	"github.com/mooncake-go/mooncake/core/bench/tier"
)

// TestBenchTier measures tier/file, and leaves nothing but the figures.
func TestBenchTier(t *testing.T) {
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "figures.json")
	e, stdout, stderr := clitest.New()
	args := []string{"mooncake", "bench", "tier", "--path", dir, "--records", "32", "--record-size", "64KiB", "--rounds", "1", "--io", "pread", "--out", out}
	require.Equal(t, command.ExitOK, cli.Run(e, args), stderr.String())
	assert.Contains(t, stdout.String(), "read of 64 KiB at depth 32")
	assert.Contains(t, stderr.String(), "round 1 of 1")
	text, err := os.ReadFile(out)
	require.NoError(t, err)
	var figures tier.Figures
	require.NoError(t, json.Unmarshal(text, &figures))
	require.Len(t, figures, 4)
	for _, f := range figures {
		assert.Positive(t, f.Ours, f.Figure)
		assert.NotEmpty(t, f.Unit)
		assert.NotEmpty(t, f.Goal)
		if f.Beside != nil {
			assert.Contains(t, f.BesideName, "fio")
		}
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
}

// TestBenchTierRefuses: what cannot work is a usage error, and nothing is measured.
func TestBenchTierRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		"0 records":          {"--records", "0"},
		"no such file":       {"--path", "/absent"},
		`io is "carrier"`:    {"--io", "carrier"},
		"a multiple of":      {"--record-size", "1"},
		"takes no arguments": {"now"},
	} {
		e, stdout, stderr := clitest.New()
		assert.Equal(t, command.ExitUsage, cli.Run(e, append([]string{"mooncake", "bench", "tier"}, args...)), want)
		assert.Contains(t, stderr.String(), want)
		assert.Empty(t, stdout.String())
	}
}
