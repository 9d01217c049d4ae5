package rig

import (
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/x/shm"
)

// SealedMemory returns shared memory, that of a sealed memory file, which lasts as long as t.
func SealedMemory(t conformance.TB, size int) (mem []byte, fd int) {
	m, err := shm.Create("conformance", size)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m.Bytes()[:size], m.FD()
}
