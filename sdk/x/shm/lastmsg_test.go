package shm_test

import (
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/x/shm"
)

// TestTheLastMessageArrives: a message that the other end sent right before it closed is read, also if the reader
// comes at the same moment.
func TestTheLastMessageArrives(t *testing.T) {
	pair := func() (a, b *net.UnixConn) {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		var ends [2]*net.UnixConn
		for i, fd := range fds {
			f := os.NewFile(uintptr(fd), "end")
			c, err := net.FileConn(f)
			require.NoError(t, err)
			require.NoError(t, f.Close())
			ends[i] = c.(*net.UnixConn)
		}
		return ends[0], ends[1]
	}
	var buf [8]byte
	for i := range 20_000 {
		a, b := pair()
		go func() {
			_, _ = b.Write([]byte("last"))
			_ = b.Close()
		}()
		n, _, err := shm.ReadMsg(a, buf[:], 0)
		require.NoError(t, err, "message %d", i)
		require.Equal(t, "last", string(buf[:n]))
		require.NoError(t, a.Close())
	}
}
