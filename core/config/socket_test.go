package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAdminSocket(t *testing.T) {
	for _, role := range Roles() {
		require.Equal(t, SocketAuto, mustLoad(t, role, nil, nil, "").Config.Admin.Socket)
		require.Equal(t, SocketOff, mustLoad(t, role, []string{"--admin-socket=OFF"}, nil, "").Config.Admin.Socket)
	}
	longest := "/" + strings.Repeat("x", maxSocketPath-1)
	require.Equal(t, longest, mustLoad(t, RoleClient, nil, []string{"MOONCAKE_ADMIN_SOCKET=" + longest}, "").Config.Admin.Socket)
	for _, bad := range []string{"yes", "run/x.sock", "", "/run/", longest + "x", "/a\nb"} {
		_, err := load(t, RoleMaster, []string{"--admin_socket=" + bad}, nil, "")
		require.True(t, IsUsage(err), "%q: %v", bad, err)
	}
}
