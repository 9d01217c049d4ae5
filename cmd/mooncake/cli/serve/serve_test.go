package serve_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/cli"
	"github.com/mooncake-go/mooncake/cmd/mooncake/cli/serve"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/clitest"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/core/config"
)

// TestTheStoreHasItsServicesFlags: --port is that of the REST service, under each name.
func TestTheStoreHasItsServicesFlags(t *testing.T) {
	e, _, _ := clitest.New()
	cmd := serve.Store(e)
	require.NoError(t, cmd.ParseFlags([]string{"--port=8088", "-D", "global_segment_size=1gb"}))
	loaded, err := config.Load(config.Options{Role: command.RoleOf(cmd), Flags: cmd.Flags()})
	require.NoError(t, err)
	assert.Equal(t, 8088, loaded.Config.Store.RESTPort)
	assert.Equal(t, config.GiB, loaded.Config.Store.GlobalSegmentSize)
	for _, name := range []string{"mooncake_store_service", "mc_store_rest_server"} {
		e, stdout, _ := clitest.New()
		assert.Equal(t, command.ExitOK, cli.Run(e, []string{"/usr/bin/" + name, "--help"}))
		assert.Contains(t, stdout.String(), "--max_wait_time")
		assert.Contains(t, stdout.String(), "-D, --define")
		e, _, stderr := clitest.New()
		assert.Equal(t, command.ExitFailure, cli.Run(e, []string{name}), "as upstream's, without a master")
		assert.Contains(t, stderr.String(), "MOONCAKE_MASTER")
	}
}
