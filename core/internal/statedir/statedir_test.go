package statedir

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFolder(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		root bool
		want string
	}{
		{map[string]string{"STATE_DIRECTORY": "/s:/t", "XDG_STATE_HOME": "/x"}, true, "/s"},
		{map[string]string{"XDG_STATE_HOME": "/x"}, true, "/var/lib/mooncake"},
		{map[string]string{"XDG_STATE_HOME": "/x", "HOME": "/h"}, false, "/x/mooncake"},
		{map[string]string{"XDG_STATE_HOME": "x", "HOME": "/h"}, false, "/h/.local/state/mooncake"},
	} {
		got, err := Folder(func(k string) string { return c.env[k] }, c.root)
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
	_, err := Folder(func(string) string { return "" }, false)
	require.ErrorContains(t, err, "XDG_STATE_HOME")
}
