package transporttest

import (
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/x/shm"
)

// SealedMemory is shared memory for WithSharedMemory: a sealed memory file.
func SealedMemory(t conformance.TB, size int) (mem []byte, fd int) {
	m, err := shm.Create("conformance", size)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m.Bytes()[:size], m.FD()
}
