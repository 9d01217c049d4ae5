package frame

import (
	"bytes"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	localv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/local/v1"
)

// pair is two connected sockets.
func pair(t testing.TB) (a, b Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	conns := make([]Conn, 2)
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socket")
		c, err := net.FileConn(f)
		require.NoError(t, err)
		f.Close()
		t.Cleanup(func() { c.Close() })
		conns[i] = Conn{UnixConn: c.(*net.UnixConn)}
	}
	return conns[0], conns[1]
}

// openFDs counts this process's descriptors.
func openFDs(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

func soon() time.Time { return time.Now().Add(10 * time.Second) }

func TestMessagesWithDescriptors(t *testing.T) {
	a, b := pair(t)
	f, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer f.Close()
	for _, fd := range []int{-1, int(f.Fd()), -1} {
		require.NoError(t, a.Send(soon(), &localv1.Hello{Version: "v", Pid: 7}, fd))
	}
	for _, want := range []bool{false, true, false} {
		var m localv1.Hello
		fd, err := b.Recv(soon(), &m)
		require.NoError(t, err)
		require.Equal(t, want, fd >= 0)
		require.EqualValues(t, 7, m.GetPid())
		if fd >= 0 {
			require.NoError(t, unix.Close(fd))
		}
	}
	require.NoError(t, a.Close())
	_, err = b.Recv(soon(), &localv1.Hello{})
	require.Equal(t, io.EOF, err)
}

// TestTooManyDescriptors: more than one descriptor is refused, and none of them stays open.
func TestTooManyDescriptors(t *testing.T) {
	for _, n := range []int{2, 3, 100} {
		a, b := pair(t)
		before := openFDs(t)
		fds := make([]int, n)
		_, _, err := a.WriteMsgUnix([]byte{0, 0, 0, 0}, unix.UnixRights(fds...), nil)
		require.NoError(t, err)
		fd, err := b.Recv(soon(), &localv1.Hello{})
		require.ErrorContains(t, err, "with too much in it", n)
		require.Equal(t, -1, fd)
		require.Equal(t, before, openFDs(t))
	}
	a, b := pair(t) // One with the length and another with the body.
	before := openFDs(t)
	_, _, err := a.WriteMsgUnix([]byte{1, 0, 0, 0}, unix.UnixRights(0), nil)
	require.NoError(t, err)
	_, _, err = a.WriteMsgUnix([]byte{0}, unix.UnixRights(0), nil)
	require.NoError(t, err)
	fd, err := b.Recv(soon(), &localv1.Hello{})
	require.ErrorContains(t, err, "with too much in it")
	require.GreaterOrEqual(t, fd, 0, "the first is the caller's")
	require.NoError(t, unix.Close(fd))
	require.Equal(t, before, openFDs(t))
}

func TestPreamble(t *testing.T) {
	var b bytes.Buffer
	token := NewToken()
	require.NoError(t, WritePreamble(&b, Calls, token))
	b.WriteString("rest")
	k, got, err := ReadPreamble(&b)
	require.NoError(t, err)
	require.Equal(t, Calls, k)
	require.Equal(t, token, got)
	require.Equal(t, "rest", b.String(), "not a byte more")
}

func FuzzReadPreamble(f *testing.F) {
	var b bytes.Buffer
	_ = WritePreamble(&b, Lifeline, NewToken())
	f.Add(b.Bytes())
	f.Add([]byte("GET / HTTP/1.1"))
	f.Fuzz(func(t *testing.T, in []byte) {
		k, token, err := ReadPreamble(bytes.NewReader(in))
		if err != nil {
			return
		}
		var again bytes.Buffer
		require.NoError(t, WritePreamble(&again, k, token))
		require.Equal(t, in[:preambleSize], again.Bytes())
	})
}

func FuzzRecv(f *testing.F) {
	f.Add([]byte{2, 0, 0, 0, 10, 0})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{3, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, in []byte) {
		a, b := pair(t)
		if len(in) > 32<<10 {
			return
		}
		_, err := a.Write(in)
		require.NoError(t, err)
		require.NoError(t, a.CloseWrite())
		for range len(in) + 1 { // Every message has at least its length.
			if _, err = b.Recv(soon(), &localv1.AttachRequest{}); err != nil {
				return
			}
		}
		t.Fatal("more messages than bytes")
	})
}
