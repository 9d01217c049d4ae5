package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGoLimit(t *testing.T) {
	for text, want := range map[string]Memory{
		"AUTO": {GoLimit: "auto"}, "off": {GoLimit: "off"}, "64MiB": {GoLimit: "64MiB"}, "2 GB": {GoLimit: "2GiB"}, "1073741824": {GoLimit: "1GiB"},
	} {
		require.Equal(t, want, mustLoad(t, RoleMaster, []string{"--memory_go_limit=" + text}, nil, "").Config.Memory)
	}
	m := Memory{GoLimit: "2GiB"}
	require.Equal(t, 2*GiB, m.Limit())
	require.False(t, m.Off())
	for _, word := range []string{limitAuto, limitOff} {
		m := Memory{GoLimit: word}
		require.Zero(t, m.Limit())
		require.Equal(t, word == limitOff, m.Off())
	}
	for _, bad := range []string{"63MiB", "0", "-1", "lots", "", "1.5e30"} {
		_, err := load(t, RoleService, []string{"--memory_go_limit=" + bad}, nil, "")
		require.True(t, IsUsage(err), "%q: %v", bad, err)
		require.ErrorContains(t, err, "must be auto, off or a size from 64MiB")
	}
}
