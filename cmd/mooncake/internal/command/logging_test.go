package command

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config"
)

func TestClientCommandsAreQuietUnlessTold(t *testing.T) {
	for _, c := range []struct {
		role    config.Role
		environ []string
		want    string
	}{
		{config.RoleClient, nil, "warn"},
		{config.RoleClient, []string{"MOONCAKE_LOG_LEVEL=info"}, "info"},
		{config.RoleClient, []string{"MC_LOG_LEVEL=ERROR"}, "error"},
		{config.RoleStore, nil, "info"},
	} {
		loaded, err := config.Load(config.Options{Role: c.role, Environ: c.environ})
		require.NoError(t, err)
		assert.Equal(t, c.want, logLevel(loaded, c.role), "%s %v", c.role, c.environ)
	}
}
