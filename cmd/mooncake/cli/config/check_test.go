package config

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

// TestCheckReachesPluginsThatAreNotSelected: a misspelt setting of a plugin is an error, although the role does not use the plugin.
func TestCheckReachesPluginsThatAreNotSelected(t *testing.T) {
	for text, want := range map[string]string{
		"plugins: {transport: {quic: {config: {flow_windw: 1}}}}":     `plugins.transport.quic.config: transport/quic: configure: INVALID_PARAMS: unknown setting "flow_windw"`,
		"plugins: {transport: {tcp: {config: {slice_bytes: 65536}}}}": "",
		"plugins: {evict: {elsewhere: {config: {any: 1}}}}":           "",
	} {
		file := filepath.Join(t.TempDir(), "c.yaml")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		e, stdout, _ := clitest.New()
		cmd := New(e)
		cmd.SetArgs([]string{"check", "--role", "master", file})
		err := cmd.Execute()
		if want == "" {
			require.NoError(t, err)
			assert.Contains(t, stdout.String(), "ok")
			continue
		}
		require.ErrorContains(t, err, want)
		assert.Equal(t, command.ExitUsage, command.ExitCode(err))
	}
}
