package etcdconn

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzParse: whatever comes out is what goes in again.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"etcd://a:1,b:2", "h", "[::1]:7;https://x", "etcd://u:p@h", ",,", "http://h/?"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, conn string) {
		list, err := parse("metadata service", conn, false)
		if err != nil {
			return
		}
		require.NotEmpty(t, list)
		require.LessOrEqual(t, len(list), maxEndpoints)
		again, err := parse("metadata service", strings.Join(list, ","), true)
		require.NoError(t, err)
		require.Equal(t, list, again)
	})
}
