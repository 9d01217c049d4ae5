package transporttest

import (
	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/internal/rig"
)

// SealedMemory is shared memory for WithSharedMemory: a sealed memory file.
func SealedMemory(t conformance.TB, size int) (mem []byte, fd int) { return rig.SealedMemory(t, size) }
