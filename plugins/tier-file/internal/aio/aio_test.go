package aio_test

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/aio"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// each runs a test with both engines.
func each(t *testing.T, test func(*testing.T, aio.Engine)) {
	t.Run("io_uring", func(t *testing.T) {
		e, err := aio.NewRing()
		if err != nil {
			t.Skip("this machine has no io_uring: ", err)
		}
		test(t, e)
		require.NoError(t, e.Close(t.Context()))
	})
	t.Run("pread", func(t *testing.T) {
		e := aio.NewPool()
		test(t, e)
		require.NoError(t, e.Close(t.Context()))
	})
}

// await runs requests and returns their errors.
func await(e aio.Engine, rs ...*aio.Request) []error {
	errs := make([]error, len(rs))
	var all sync.WaitGroup
	all.Add(len(rs))
	for i, r := range rs {
		r.Done = func(err error) {
			errs[i] = err
			all.Done()
		}
	}
	e.Submit(rs...)
	all.Wait()
	return errs
}

func file(t *testing.T) *os.File {
	f, err := os.Create(filepath.Join(t.TempDir(), "data"))
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// TestMany writes and reads more requests than an engine has at the kernel, from several goroutines.
func TestMany(t *testing.T) {
	each(t, func(t *testing.T, e aio.Engine) {
		f := file(t)
		fd := int(f.Fd())
		const n, size, senders = 200, 3000, 4
		value := make([]byte, n*size)
		for i := range value {
			value[i] = byte(rand.Uint32())
		}
		var all sync.WaitGroup
		for s := range senders {
			all.Go(func() {
				var rs []*aio.Request
				for i := s; i < n; i += senders {
					b := value[i*size:][:size]
					rs = append(rs, &aio.Request{Write: true, FD: fd, Off: int64(i * size), Bufs: [][]byte{b[:100], b[100:]}})
				}
				for _, err := range await(e, rs...) {
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		got := make([]byte, n*size)
		var rs []*aio.Request
		for i := range n {
			b := got[i*size:][:size]
			rs = append(rs, &aio.Request{FD: fd, Off: int64(i * size), Bufs: [][]byte{b[:7], b[7:2000], b[2000:]}})
		}
		for _, err := range await(e, rs...) {
			require.NoError(t, err)
		}
		require.True(t, bytes.Equal(value, got))
	})
}

// TestErrors: the error of one request does not touch another one.
func TestErrors(t *testing.T) {
	each(t, func(t *testing.T, e aio.Engine) {
		f := file(t)
		_, err := f.WriteString("hello")
		require.NoError(t, err)
		b := make([]byte, 10)
		got := await(e,
			&aio.Request{FD: int(f.Fd()), Bufs: [][]byte{b[:5]}},
			&aio.Request{FD: int(f.Fd()), Bufs: [][]byte{make([]byte, 10)}},
			&aio.Request{FD: 1 << 20, Bufs: [][]byte{make([]byte, 10)}},
		)
		require.NoError(t, got[0])
		require.Equal(t, "hello", string(b[:5]))
		require.ErrorIs(t, got[1], io.ErrUnexpectedEOF, "a file that is too short")
		require.ErrorIs(t, got[2], unix.EBADF)
	})
}

// TestClosed: requests that come after Close are refused.
func TestClosed(t *testing.T) {
	each(t, func(t *testing.T, e aio.Engine) {
		require.NoError(t, e.Close(t.Context()))
		late := await(e, &aio.Request{FD: 0, Bufs: [][]byte{make([]byte, 8)}})
		require.ErrorIs(t, late[0], aio.ErrClosed)
	})
}

// TestCloseWaits: a request that the kernel does not end keeps Close waiting, until its context
// ends. The memory stays in use until the kernel is done.
func TestCloseWaits(t *testing.T) {
	e, err := aio.NewRing()
	if err != nil {
		t.Skip("preadv refuses what never ends, and this machine has no io_uring: ", err)
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	require.NoError(t, err)
	defer unix.Close(fd)
	done := make(chan error, 1)
	e.Submit(&aio.Request{FD: fd, Bufs: [][]byte{make([]byte, 8)}, Done: func(err error) { done <- err }})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorContains(t, e.Close(ctx), "does not respond")
	require.Empty(t, done)
	_, err = unix.Write(fd, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	require.NoError(t, err)
	require.NoError(t, <-done)
	require.NoError(t, e.Close(t.Context()))
}
