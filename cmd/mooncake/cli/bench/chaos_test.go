package bench_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mooncake-go/mooncake/cmd/mooncake/cli"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/clitest"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
)

// TestBenchChaosRefuses: what cannot work is a usage error, and nothing runs. test/chaos runs the rest.
func TestBenchChaosRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		"there are master-kill, master-term": {"fire"},
		"0 rounds":                           {"--rounds", "0"},
		"half of the pool":                   {"--segment-size", "1MiB"},
		"a page of 1073741824 bytes":         {"--page-size", "100GiB"},
	} {
		e, _, stderr := clitest.New()
		out := filepath.Join(t.TempDir(), "rows.json")
		assert.Equal(t, command.ExitUsage, cli.Run(e, append([]string{"mooncake", "bench", "chaos", "--out", out}, args...)), want)
		assert.Contains(t, stderr.String(), want)
		assert.NoFileExists(t, out)
	}
}

// TestBenchChaosFailsWithoutAPool: a pool that does not start ends the run, with no file and no rows.
func TestBenchChaosFailsWithoutAPool(t *testing.T) {
	e, stdout, stderr := clitest.New()
	e.Program = filepath.Join(t.TempDir(), "absent")
	out := filepath.Join(t.TempDir(), "rows.json")
	assert.Equal(t, command.ExitFailure, cli.Run(e, []string{"mooncake", "bench", "chaos", "master-kill", "--out", out}))
	assert.Contains(t, stderr.String(), "master kill -9, round 1")
	assert.NoFileExists(t, out)
	assert.Empty(t, stdout.String())
}
