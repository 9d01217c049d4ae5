package busypoll

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const patient = 30 * time.Second

// pair is both ends of a TCP connection, and a reader of the first.
func pair(t testing.TB, poll time.Duration) (a, b *net.TCPConn, r *Reader) {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	dialled, err := new(net.Dialer).DialContext(t.Context(), "tcp", ln.Addr().String())
	require.NoError(t, err)
	accepted, err := ln.Accept()
	require.NoError(t, err)
	a, b = dialled.(*net.TCPConn), accepted.(*net.TCPConn)
	t.Cleanup(func() { _ = a.Close(); _ = b.Close() })
	r, err = NewReader(a, poll)
	require.NoError(t, err)
	return a, b, r
}

// TestReadsWhatComes: pieces of many sizes, at once and late, whether polling pays or not.
func TestReadsWhatComes(t *testing.T) {
	for _, poll := range []time.Duration{-1, 0, time.Nanosecond, 10 * time.Millisecond} {
		_, b, r := pair(t, poll)
		var sent bytes.Buffer
		go func() {
			defer b.Close()
			for i := range 300 {
				piece := bytes.Repeat([]byte{byte(i)}, 1+i*i)
				sent.Write(piece)
				_, _ = b.Write(piece)
				if i%50 == 0 {
					time.Sleep(time.Millisecond)
				}
			}
		}()
		got, err := io.ReadAll(r)
		require.NoError(t, err)
		require.True(t, bytes.Equal(sent.Bytes(), got), "poll %v", poll)
	}
}

func TestDeadlinesAndCloseEndARead(t *testing.T) {
	a, b, r := pair(t, 0)
	p := make([]byte, 8)
	require.NoError(t, a.SetReadDeadline(time.Now().Add(time.Millisecond)))
	_, err := r.Read(p)
	require.True(t, IsTimeout(err), "%v", err)
	require.NoError(t, a.SetReadDeadline(time.Time{}))
	_, err = b.Write([]byte("x"))
	require.NoError(t, err)
	n, err := r.Read(p)
	require.NoError(t, err, "a deadline that has passed does not stay")
	require.Equal(t, "x", string(p[:n]))
	time.AfterFunc(time.Millisecond, func() { _ = a.Close() })
	_, err = r.Read(p)
	require.ErrorIs(t, err, net.ErrClosed)
	require.False(t, IsTimeout(err))
}

func TestTheEndOfAConnection(t *testing.T) {
	_, b, r := pair(t, 0)
	n, err := r.Read(nil)
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, b.SetLinger(0))
	require.NoError(t, b.Close())
	_, err = r.Read(make([]byte, 8))
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

// TestSendTakesWhatFits: a socket whose peer does not read takes no more, and says so.
func TestSendTakesWhatFits(t *testing.T) {
	a, b, _ := pair(t, 0)
	raw, err := a.SyscallConn()
	require.NoError(t, err)
	for _, size := range []int{0, 1, most, most + 1} {
		total := 0
		for range 100_000 {
			var n int
			var sendErr error
			require.NoError(t, raw.Control(func(fd uintptr) { n, sendErr = Send(fd, make([]byte, size)) }))
			if total += max(n, 0); sendErr != nil || n < size || size == 0 {
				require.True(t, sendErr == nil || errors.Is(sendErr, syscall.EAGAIN), "%v", sendErr)
				break
			}
		}
		require.NoError(t, b.SetReadDeadline(time.Now().Add(patient)))
		_, err = io.CopyN(io.Discard, b, int64(total))
		require.NoError(t, err)
	}
}

// TestPollingThatDoesNotPayStops counts the looks of waits for what never comes.
func TestPollingThatDoesNotPayStops(t *testing.T) {
	p := Poller{For: time.Nanosecond}
	looked := 0
	never := func() bool { looked++; return false }
	for range patience {
		require.False(t, p.Wait(never))
	}
	require.Positive(t, looked)
	for pause := firstPause; pause <= 4*longest; pause *= 2 {
		looked = 0
		for range min(pause, longest) {
			require.False(t, p.Wait(never))
		}
		require.Zero(t, looked, "pause of %d", pause)
		require.False(t, p.Wait(never))
		require.Positive(t, looked, "the wait after a pause of %d tries", pause)
	}
	for range longest {
		p.Wait(never)
	}
	require.True(t, p.Wait(func() bool { return true }), "something came")
	looked = 0
	p.Wait(never)
	require.Positive(t, looked, "it pays again")
}

func TestWhoDoesNotWantToNeverPolls(t *testing.T) {
	p := Poller{For: -1}
	require.False(t, p.Wait(func() bool { t.Error("looked"); return true }))

	Use(0)
	defer Use(Default)
	p = Poller{}
	require.False(t, p.Wait(func() bool { t.Error("looked"); return true }))
	p.For = time.Hour
	require.True(t, p.Wait(func() bool { return true }), "who is told otherwise does")
}

// TestFewPollAtATime: while as many wait as may poll, one more sleeps at once.
func TestFewPollAtATime(t *testing.T) {
	polling.Add(places)
	defer polling.Add(-places)
	var p Poller
	require.False(t, p.Wait(func() bool { t.Error("looked"); return true }))
	require.Equal(t, places, polling.Load())
}

// TestNoGarbage: neither end of a message allocates.
func TestNoGarbage(t *testing.T) {
	a, b, r := pair(t, 0)
	raw, err := b.SyscallConn()
	require.NoError(t, err)
	message, got := []byte("ping"), make([]byte, 8)
	send := func(fd uintptr) bool { _, err = Send(fd, message); return true }
	require.NoError(t, a.SetReadDeadline(time.Now().Add(patient)))
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if e := raw.Write(send); e != nil || err != nil {
			t.Fatal(e, err)
		}
		if n, err := r.Read(got); n != len(message) || err != nil {
			t.Fatal(n, err)
		}
	}))
}

// BenchmarkRoundTrip is a byte there and back between two goroutines, by how long a wait polls.
func BenchmarkRoundTrip(b *testing.B) {
	for name, poll := range map[string]time.Duration{"sleep": -1, "poll": 0} {
		b.Run(name, func(b *testing.B) {
			here, there, near := pair(b, poll)
			far, err := NewReader(there, poll)
			require.NoError(b, err)
			go func() {
				p := make([]byte, 1)
				for {
					if _, err := far.Read(p); err != nil {
						return
					}
					if _, err := there.Write(p); err != nil {
						return
					}
				}
			}()
			p := make([]byte, 1)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := here.Write(p); err != nil {
					b.Fatal(err)
				}
				if _, err := near.Read(p); err != nil {
					b.Fatal(err)
				}
			}
			require.NoError(b, here.SetDeadline(time.Now()))
			_, err = near.Read(p)
			require.ErrorIs(b, err, os.ErrDeadlineExceeded)
		})
	}
}

// TestALookoutTakesNothing: it returns once there is something, which the reader gets whole.
func TestALookoutTakesNothing(t *testing.T) {
	a, b, r := pair(t, -1)
	l, err := NewLookout(a, time.Hour, func() bool { return false })
	require.NoError(t, err)
	time.AfterFunc(time.Millisecond, func() { _, _ = b.Write([]byte("all")) })
	l.Wait()
	got := make([]byte, 8)
	require.NoError(t, a.SetReadDeadline(time.Now().Add(patient)))
	n, err := r.Read(got)
	require.NoError(t, err)
	require.Equal(t, "all", string(got[:n]))

	stopped := 0
	l, err = NewLookout(a, time.Hour, func() bool { stopped++; return stopped == 3 })
	require.NoError(t, err)
	l.Wait()
	require.Equal(t, 3, stopped)
	require.NoError(t, a.Close())
	l.Wait()
	require.Equal(t, 3, stopped, "nothing is looked at on a closed connection")
}
