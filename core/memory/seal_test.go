package memory

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestSharedMemoryCannotShrink: another process can map a block without being ended by
// SIGBUS, and freeing the pages of a guarded block still works.
func TestSharedMemoryCannotShrink(t *testing.T) {
	for _, guard := range []bool{false, true} {
		b, err := Allocate(1<<20, Options{Guard: guard})
		require.NoError(t, err)
		if b.FD() < 0 {
			t.Skip("this system permits no memfd")
		}
		seals, err := unix.FcntlInt(uintptr(b.FD()), unix.F_GET_SEALS, 0)
		require.NoError(t, err)
		require.NotZero(t, seals&unix.F_SEAL_SHRINK)
		require.ErrorIs(t, unix.Ftruncate(b.FD(), 0), unix.EPERM)
		_, err = unix.FcntlInt(uintptr(b.FD()), unix.F_ADD_SEALS, unix.F_SEAL_FUTURE_WRITE)
		require.ErrorIs(t, err, unix.EPERM, "nobody who is given it can keep others from mapping it")
		b.Bytes()[0] = 1
		require.NoError(t, b.Close())
	}
}
