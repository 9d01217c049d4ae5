package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/tier"
	"github.com/mooncake-go/mooncake/test/internal/programs"
)

// TestBenchTierAsASubprocess measures tier/file as a process of its own beside the tier in process, and without the
// binary of the plugin it says which one is missing.
func TestBenchTierAsASubprocess(t *testing.T) {
	args := []string{"bench", "tier", "--subprocess", "--path", t.TempDir(), "--records", "32", "--record-size", "64KiB", "--rounds", "1", "-o", "json"}
	r := mooncake(t, args...)
	require.Zero(t, r.Code, r.Stderr)
	beside := 0
	for _, f := range decode[tier.Figures](t, r.Stdout) {
		if strings.HasSuffix(f.Figure, ", as a subprocess") {
			beside++
			assert.Equal(t, "in process", f.BesideName)
			assert.Positive(t, f.Ours, f.Figure)
			require.NotNil(t, f.Ratio, f.Figure)
			assert.InDelta(t, f.Ours / *f.Beside, *f.Ratio, 1e-9)
		}
	}
	assert.Equal(t, 3, beside)

	alone := filepath.Join(t.TempDir(), "mooncake")
	require.NoError(t, os.Link(filepath.Join(bin, "mooncake"), alone))
	r = programs.Run(t, programs.Spec{Program: alone, Args: args})
	assert.NotZero(t, r.Code)
	assert.Contains(t, r.Stderr, "mooncake-plugin-tier-file")
}
