package demo

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/clitest"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestWrongSettingsStartNothing: the demo reports them before it starts a process.
func TestWrongSettingsStartNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	require.NoError(t, os.WriteFile(file, []byte("master: {lease_tl: 1s}\n"), 0o600))
	for want, args := range map[string][]string{
		"master.lease_ttl":             {"--config", file},
		"none.yaml: does not exist":    {"--config", filepath.Join(filepath.Dir(file), "none.yaml")},
		"must be key=value":            {"--set", "x"},
		"master.lease_tl: unknown key": {"--set", "master.lease_tl=1s"},
	} {
		e, _, _ := clitest.New()
		e.Program = "/nowhere/mooncake"
		cmd := New(e)
		cmd.SetArgs(args)
		err := cmd.Execute()
		require.ErrorContains(t, err, want, args)
		assert.Equal(t, command.ExitUsage, command.ExitCode(err), args)
	}
}
