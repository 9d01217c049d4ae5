package examples

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/cli/plugins/scaffold"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/test/internal/programs"
)

// TestGoExamplesRun builds each example in Go, a module of its own, as its documentation says, and
// runs the demo with it if the demo uses its kind. The example's own tests check that it keeps its contract.
func TestGoExamplesRun(t *testing.T) {
	programs.Long(t)
	modules, err := filepath.Glob("../../examples/*/go.mod")
	require.NoError(t, err)
	require.NotEmpty(t, modules)
	for _, mod := range modules {
		dir := filepath.Dir(mod)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			out := filepath.Join(plugins, filepath.Base(dir))
			require.NoError(t, os.Mkdir(out, 0o755))
			command(t, dir, "go", "build", "-o", out+"/", "./cmd/...")
			built, err := os.ReadDir(out)
			require.NoError(t, err)
			require.Len(t, built, 1)
			id, ok := plugin.ParseBinaryName(built[0].Name())
			require.True(t, ok, built[0].Name())
			listed(t, out, id)
			if scaffold.InDemo(id.Kind) {
				demonstrated(t, out, id)
			}
		})
	}
}
