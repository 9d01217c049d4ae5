package upstream

import (
	"encoding/binary"
	"net/netip"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// socket is a client's end of a connection without memory of this process.
type socket struct {
	t  *testing.T
	fd int
}

// connectFrom connects from one of the addresses of this machine.
func connectFrom(t *testing.T, host byte, to netip.AddrPort) socket {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, host}}))
	require.NoError(t, unix.Connect(fd, &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())}))
	return socket{t, fd}
}

// Write implements io.Writer.
func (s socket) Write(b []byte) (int, error) { return unix.Write(s.fd, b) }

// Read implements io.Reader.
func (s socket) Read(b []byte) (int, error) { return unix.Read(s.fd, b) }

// TestIdleConnectionsCostLittle: a connection that was used and is idle has one goroutine and a few KiB.
// Its client may have a hundred of them.
func TestIdleConnectionsCostLittle(t *testing.T) {
	const most = 10_000
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	n := min(most, int(limit.Cur)/2-300) // Each has a descriptor on both sides.
	if testing.Short() {
		n = min(n, 1000)
	}
	var h tester
	addr, _ := serve(t, &h, Options{})
	to := netip.MustParseAddrPort(addr)
	heap, stacks, goroutines := inUse()
	var sockets []socket
	defer func() {
		for _, c := range sockets {
			_ = unix.Close(c.fd)
		}
	}()
	var ask sync.WaitGroup
	ask.Go(func() {
		for i := range n {
			c := connectFrom(t, byte(1+i%100), to)
			sockets = append(sockets, c)
			size := 40
			if i%4 == 0 {
				size = 100_000 // It has used large buffers as well.
			}
			_, err := c.Write(request(uint32(i), fnBlow, binary.LittleEndian.AppendUint32(nil, uint32(size)), 0))
			require.NoError(t, err)
			seq, code, body, err := readAnswer(c)
			require.NoError(t, err)
			require.EqualValues(t, i, seq)
			require.Zero(t, code)
			require.Len(t, body, size)
		}
	})
	ask.Wait()
	require.EqualValues(t, n, h.conns.Load())
	heap2, stacks2, goroutines2 := inUse()
	t.Logf("%d connections, each: heap %d B, stack %d B", n, (heap2-heap)/n, (stacks2-stacks)/n)
	require.LessOrEqual(t, goroutines2-goroutines, n+20)
	require.Less(t, (heap2-heap)/n, 4<<10, "bytes of heap of a connection")
	require.Less(t, (stacks2-stacks)/n, 9<<10, "bytes of stack of a connection")
	require.EqualValues(t, n, h.conns.Load(), "all are there yet")
}

// inUse returns the bytes of the heap and of stacks, and the goroutines, once what is free is free.
func inUse() (heap, stacks, goroutines int) {
	for range 3 {
		runtime.GC() // Stacks shrink by a half each time, pools are empty after two.
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc), int(m.StackInuse), runtime.NumGoroutine()
}
