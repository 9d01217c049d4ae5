package app

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config"
)

// TestEmbeddedConfig: what is not given follows from the list.
func TestEmbeddedConfig(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", "/s")
	cfg := settings(t, func(c *config.Config) {
		m := &c.Master
		m.HABackendType, m.HAMembers, m.HAMember, m.HAMemberProgram = config.HAEmbedded, []string{"m1=10.0.0.1", "m2=10.0.0.2", "m3=10.0.0.3"}, "m2", "/bin/true"
	})
	o, err := embeddedConfig(cfg, quiet)
	require.NoError(t, err)
	require.Equal(t, "10.0.0.2", o.Bind, "not all addresses, although rpc_address is 0.0.0.0")
	require.Equal(t, "/s/mooncake_cluster/m2", o.Folder)
	require.Equal(t, "/bin/true", o.Program)
	require.Nil(t, o.TLS)
}
