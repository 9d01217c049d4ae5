package calls

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReaders: the descriptor of a replica has three shapes, most other responses have one.
func TestReaders(t *testing.T) {
	old, middle := Only(V9)|Only(V10), Only(V11)|Only(V12)
	for v, want := range map[Version]Versions{V9: old, V10: old, V11: middle, V12: middle, V13: Only(V13)} {
		require.Equal(t, want, GetReplicaList.Readers(v), "version %d", v)
		require.Equal(t, want, BatchPutStart.Readers(v), "version %d", v)
		require.Equal(t, All, Ping.Readers(v))
	}
	require.Zero(t, PollRemoveAll.Readers(V9), "it does not have the function")
	require.Equal(t, Since(V12), PollRemoveAll.Readers(V13))
	require.Equal(t, Only(V9), FetchTasks.Readers(V9))
	require.Equal(t, Since(V10), FetchTasks.Readers(V12))
	for _, f := range Functions {
		require.True(t, f.Readers(f.Versions().Newest()).Has(f.Versions().Newest()), f.Name())
	}
}
