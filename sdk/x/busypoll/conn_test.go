package busypoll

import (
	"bytes"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/net/nettest"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// adopted returns both ends of a TCP connection that Go's scheduler does not watch.
func adopted(t testing.TB) (a, b *Conn) {
	t.Helper()
	x, y, _ := pair(t, 0)
	a, ok := Adopt(x, time.Millisecond).(*Conn)
	require.True(t, ok)
	b, ok = Adopt(y, time.Millisecond).(*Conn)
	require.True(t, ok)
	t.Cleanup(func() { _ = a.Close(); _ = b.Close() })
	return a, b
}

// TestConn runs the conformance tests of golang.org/x/net for net.Conn.
func TestConn(t *testing.T) {
	nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
		a, b := adopted(t)
		return a, b, func() { _ = a.Close(); _ = b.Close() }, nil
	})
}

// sleeping starts a read of c, returns once it sleeps, and delivers the error of the read later.
func sleeping(t *testing.T, c *Conn) <-chan error {
	t.Helper()
	r, err := NewReader(c, time.Millisecond)
	require.NoError(t, err)
	got := make(chan error, 1)
	go func() {
		_, err := r.ReadAsleep(make([]byte, 8))
		got <- err
	}()
	require.Eventually(t, func() bool { return watched(c) }, patient, 100*time.Microsecond)
	return got
}

// watched reports whether arriving data wakes a reader.
func watched(c *Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.armed&unix.EPOLLIN != 0
}

// TestReadPollerTakesOver checks that arriving data wakes no reader while Wait polls, and wakes it
// as before afterwards.
func TestReadPollerTakesOver(t *testing.T) {
	a, b := adopted(t)
	got := sleeping(t, a)
	polls := 0
	l, err := NewReadPoller(a, time.Hour, func() bool {
		require.False(t, watched(a))
		polls++
		return polls%3 == 0
	})
	require.NoError(t, err)
	l.Wait()
	require.Equal(t, 3, polls)
	require.Eventually(t, func() bool { return watched(a) }, patient, 100*time.Microsecond, "stop ended the wait")

	hasty, err := NewReadPoller(a, time.Nanosecond, func() bool { return false })
	require.NoError(t, err)
	hasty.Wait()
	require.True(t, watched(a), "no data arrived")

	polls = 0
	l, err = NewReadPoller(a, time.Hour, func() bool {
		if polls++; polls == 1 { // While Wait polls, no other goroutine reads the byte.
			_, err := b.Write([]byte("x"))
			require.NoError(t, err)
		}
		return false
	})
	require.NoError(t, err)
	l.Wait()
	require.NoError(t, <-got)
}

func TestSleepEnds(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(a, b *Conn) error
		want error
	}{
		"close":          {func(a, _ *Conn) error { return a.Close() }, net.ErrClosed},
		"deadline":       {func(a, _ *Conn) error { return a.SetReadDeadline(time.Now().Add(time.Millisecond)) }, os.ErrDeadlineExceeded},
		"past deadline":  {func(a, _ *Conn) error { return a.SetDeadline(time.Unix(1, 0)) }, os.ErrDeadlineExceeded},
		"end":            {func(_, b *Conn) error { return b.CloseWrite() }, io.EOF},
		"close of other": {func(_, b *Conn) error { return b.Close() }, io.EOF},
		"bytes":          {func(_, b *Conn) error { _, err := b.Write([]byte("x")); return err }, nil},
		"reset": {func(_, b *Conn) error {
			if err := b.control("set", func(fd int) error {
				return unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
			}); err != nil {
				return err
			}
			return b.Close()
		}, syscall.ECONNRESET},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := adopted(t)
			got := sleeping(t, a)
			require.NoError(t, c.do(a, b))
			if c.want == nil {
				require.NoError(t, <-got)
			} else {
				require.ErrorIs(t, <-got, c.want)
			}
		})
	}
}

// TestMovedDeadline checks that only the last deadline counts, even if the timer of an earlier one
// has fired already.
func TestMovedDeadline(t *testing.T) {
	a, b := adopted(t)
	for range 200 {
		require.NoError(t, a.SetReadDeadline(time.Now().Add(50*time.Microsecond)))
		require.NoError(t, a.SetReadDeadline(time.Now().Add(patient)))
		_, err := b.Write([]byte("x"))
		require.NoError(t, err)
		_, err = io.ReadFull(a, make([]byte, 1))
		require.NoError(t, err)
	}
}

// TestManyBuffers writes more buffers than one system call takes, and more bytes than the socket
// buffers.
func TestManyBuffers(t *testing.T) {
	a, b := adopted(t)
	require.NoError(t, a.SetWriteBuffer(64<<10))
	var all []byte
	var bufs net.Buffers
	for i := range 3*maxBufs + 1 {
		piece := bytes.Repeat([]byte{byte(i)}, i*i*7%50_000)
		all, bufs = append(all, piece...), append(bufs, piece)
	}
	sent := make(chan error, 1)
	go func() {
		n, err := a.WriteBuffers(&bufs)
		if err == nil && n != int64(len(all)) {
			err = io.ErrShortWrite
		}
		sent <- err
	}()
	got := make([]byte, len(all))
	_, err := io.ReadFull(b, got)
	require.NoError(t, err)
	require.NoError(t, <-sent)
	require.True(t, bytes.Equal(all, got))
	require.Empty(t, bufs)
}

// TestSenderNeverWaits checks that Send leaves in bufs what the socket does not take.
func TestSenderNeverWaits(t *testing.T) {
	a, b := adopted(t)
	s, err := NewSender(a)
	require.NoError(t, err)
	want := bytes.Repeat([]byte("0123456789abcdef"), 4<<20/16)
	bufs := net.Buffers{want[:100], nil, want[100:]}
	require.NoError(t, s.Send(&bufs))
	require.NotEmpty(t, bufs, "no socket buffers 4 MiB")
	require.NoError(t, s.Send(&bufs))
	got := make([]byte, len(want))
	done := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(b, got)
		done <- err
	}()
	_, err = a.WriteBuffers(&bufs)
	require.NoError(t, err)
	require.NoError(t, <-done)
	require.True(t, bytes.Equal(want, got))

	require.NoError(t, a.Close())
	bufs = net.Buffers{want}
	require.ErrorIs(t, s.Send(&bufs), net.ErrClosed)
	require.Len(t, bufs, 1)
}

// TestAdoptReturnsOriginal lists the cases in which Adopt returns its argument.
func TestAdoptReturnsOriginal(t *testing.T) {
	a, b, _ := pair(t, 0)
	require.Same(t, a, Adopt(a, -1))
	Use(0)
	require.Same(t, a, Adopt(a, 0))
	Use(Default)
	x, y := net.Pipe()
	defer x.Close()
	defer y.Close()
	require.Equal(t, x, Adopt(x, 0))
	require.NoError(t, a.Close())
	require.Same(t, a, Adopt(a, 0), "closed")
	_, err := b.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

// TestNoLeaks checks that closed connections leave no descriptor and no watch set. TestMain checks
// for goroutines.
func TestNoLeaks(t *testing.T) {
	before := descriptors(t)
	for range 3 {
		var all []*Conn
		for range 20 {
			a, b := adopted(t)
			_ = sleeping(t, a)
			all = append(all, a, b)
		}
		currentMu.Lock()
		require.Equal(t, 40, current.count)
		currentMu.Unlock()
		var closing sync.WaitGroup
		for _, c := range all {
			closing.Go(func() { _ = c.Close() })
		}
		closing.Wait()
		require.Eventually(t, func() bool {
			currentMu.Lock()
			defer currentMu.Unlock()
			return current == nil
		}, patient, time.Millisecond)
		require.Eventually(t, func() bool { return descriptors(t) == before }, patient, time.Millisecond)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(all)
}

// TestConnDoesNotAllocate checks that an open Conn does not allocate.
func TestConnDoesNotAllocate(t *testing.T) {
	a, b := adopted(t)
	p, other := make([]byte, 100), make([]byte, 100)
	var three [3][]byte
	var bufs net.Buffers
	at := time.Now().Add(patient)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		three = [3][]byte{p[:10], p[10:50], p[50:]}
		bufs = three[:]
		_ = b.SetReadDeadline(at)
		if _, err := a.WriteBuffers(&bufs); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(b, other); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Write(p); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(a, other); err != nil {
			t.Fatal(err)
		}
	}))
}

// successor opens a connection that gets the closed descriptor fd, and puts its writer to sleep.
// release reads what the writer writes; done delivers the error of the write.
func successor(t *testing.T, fd int) (release func(), done <-chan error) {
	t.Helper()
	const size = 8 << 20
	a, b := adopted(t)
	c, other := a, b
	if b.fd == fd {
		c, other = b, a
	}
	require.Equal(t, fd, c.fd, "the kernel assigns the lowest free descriptor")
	wrote := make(chan error, 1)
	go func() {
		_, err := c.Write(make([]byte, size))
		wrote <- err
	}()
	require.Eventually(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.armed&unix.EPOLLOUT != 0
	}, patient, time.Millisecond)
	return func() {
		require.NoError(t, other.SetReadDeadline(time.Now().Add(patient)))
		_, err := io.CopyN(io.Discard, other, size)
		require.NoError(t, err)
	}, wrote
}

// TestClosedConnDoesNotAffectSuccessor checks that late calls on a closed Conn do not change what
// is watched for the connection that has its descriptor now.
func TestClosedConnDoesNotAffectSuccessor(t *testing.T) {
	closed := func(t *testing.T) (a *Conn, l *ReadPoller) {
		a, b := adopted(t)
		got := sleeping(t, a)
		l, err := NewReadPoller(a, time.Nanosecond, func() bool { return false })
		require.NoError(t, err)
		l.Wait()
		require.NoError(t, b.CloseWrite())
		require.ErrorIs(t, <-got, io.EOF)
		require.NoError(t, a.Close())
		return a, l
	}
	for name, meddle := range map[string]func(a *Conn, l *ReadPoller){
		"a wait":                    func(_ *Conn, l *ReadPoller) { l.Wait() },
		"a wait that had polled":    func(a *Conn, _ *ReadPoller) { require.Error(t, a.arm(unix.EPOLLIN)) },
		"an event that was pending": func(a *Conn, _ *ReadPoller) { a.armed = unix.EPOLLIN; a.fired(unix.EPOLLOUT) },
	} {
		t.Run(name, func(t *testing.T) {
			adopted(t) // The set stays.
			a, l := closed(t)
			release, done := successor(t, a.fd)
			meddle(a, l)
			release()
			require.NoError(t, <-done)
		})
	}
}
