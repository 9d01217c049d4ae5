package cli

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/core/config"
)

// TestTheStoreHasItsServicesFlags: --port is that of the REST service, under each name.
func TestTheStoreHasItsServicesFlags(t *testing.T) {
	e, _, _ := testEnv()
	cmd := e.storeCmd()
	require.NoError(t, cmd.ParseFlags([]string{"--port=8088", "-D", "global_segment_size=1gb"}))
	loaded, err := config.Load(config.Options{Role: command.RoleOf(cmd), Flags: cmd.Flags()})
	require.NoError(t, err)
	assert.Equal(t, 8088, loaded.Config.Store.RESTPort)
	assert.Equal(t, config.GiB, loaded.Config.Store.GlobalSegmentSize)
	for _, name := range []string{"mooncake_store_service", "mc_store_rest_server"} {
		e, stdout, _ := testEnv()
		assert.Equal(t, command.ExitOK, run(e, []string{"/usr/bin/" + name, "--help"}))
		assert.Contains(t, stdout.String(), "--max_wait_time")
		assert.Contains(t, stdout.String(), "-D, --define")
		e, _, stderr := testEnv()
		assert.Equal(t, command.ExitFailure, run(e, []string{name}), "as upstream's, without a master")
		assert.Contains(t, stderr.String(), "MOONCAKE_MASTER")
	}
}
