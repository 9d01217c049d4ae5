package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/core/config"
)

// What every process does before its role begins: all verbs with their flags, and the
// configuration out of its layers. It is measured in allocations, since that is where its time
// goes and what stays resident after it.
func TestAllocationsOfAStart(t *testing.T) {
	e, _, _ := testEnv()
	verbs := testing.AllocsPerRun(5, func() { command.Normalize(e.root(), []string{"master", "-rpc_port=1"}) })
	layers := testing.AllocsPerRun(5, func() {
		fs, _, err := config.ParseArgs(config.RoleMaster, []string{"--rpc_port=1"})
		require.NoError(t, err)
		_, err = config.Load(config.Options{Role: config.RoleMaster, Flags: fs, PluginDefaults: e.PluginDefaults()})
		require.NoError(t, err)
	})
	t.Logf("verbs %.0f, configuration %.0f", verbs, layers)
	require.LessOrEqual(t, verbs, 12_100.0)
	require.LessOrEqual(t, layers, 36_000.0)
}
