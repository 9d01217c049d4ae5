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

// TestReadsWhatComes sends writes of many sizes, at once and delayed, to readers for which polling
// pays and to readers for which it does not.
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

// TestAPollerForEachKindOfAnswer: answers that come late end the polls for their kind, although those of another kind on the
// same connection come at once.
func TestAPollerForEachKindOfAnswer(t *testing.T) {
	_, b, r := pair(t, -1)
	late, soon := Poller{For: time.Nanosecond}, Poller{For: patient}
	p := make([]byte, 1)
	read := func(poller *Poller) {
		_, err := r.ReadWith(p, poller)
		require.NoError(t, err)
	}
	for rounds := 0; late.turn(); rounds++ {
		require.Less(t, rounds, 1000, "a late answer is polled for each time")
		go func() {
			time.Sleep(time.Millisecond)
			_, _ = b.Write([]byte{1})
		}()
		read(&late)
		_, err := b.Write([]byte{2})
		require.NoError(t, err)
		read(&soon)
	}
	require.True(t, soon.turn())
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
	require.NoError(t, err, "an expired deadline can be cleared")
	require.Equal(t, "x", string(p[:n]))
	time.AfterFunc(time.Millisecond, func() { _ = a.Close() })
	_, err = r.Read(p)
	require.ErrorIs(t, err, net.ErrClosed)
	require.False(t, IsTimeout(err))
}

func TestEndOfConnection(t *testing.T) {
	_, b, r := pair(t, 0)
	n, err := r.Read(nil)
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, b.SetLinger(0))
	require.NoError(t, b.Close())
	_, err = r.Read(make([]byte, 8))
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

// TestSendTakesWhatFits checks that Send stops with EAGAIN once the buffer of a socket is full,
// because the peer does not read.
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

// TestPollingThatDoesNotPayStops counts the polls of waits for data that never arrives.
func TestPollingThatDoesNotPayStops(t *testing.T) {
	p := Poller{For: time.Nanosecond}
	polls := 0
	never := func() bool { polls++; return false }
	for range patience {
		require.False(t, p.Wait(never))
	}
	require.Positive(t, polls)
	for pause := firstPause; pause <= 4*longest; pause *= 2 {
		polls = 0
		for range min(pause, longest) {
			require.False(t, p.Wait(never))
		}
		require.Zero(t, polls, "pause of %d", pause)
		require.False(t, p.Wait(never))
		require.Positive(t, polls, "the first wait after a pause of %d waits polls", pause)
	}
	for range longest {
		p.Wait(never)
	}
	require.True(t, p.Wait(func() bool { return true }), "data arrived")
	polls = 0
	p.Wait(never)
	require.Positive(t, polls, "polling pays again")
}

func TestDisabledPollerSleeps(t *testing.T) {
	p := Poller{For: -1}
	require.False(t, p.Wait(func() bool { t.Error("polled"); return true }))

	Use(0)
	defer Use(Default)
	p = Poller{}
	require.False(t, p.Wait(func() bool { t.Error("polled"); return true }))
	p.For = time.Hour
	require.True(t, p.Wait(func() bool { return true }), "a poller with a duration of its own polls")
}

// TestFewPollAtATime checks that a wait sleeps at once while as many waits poll as are allowed.
func TestFewPollAtATime(t *testing.T) {
	polling.Add(places)
	defer polling.Add(-places)
	var p Poller
	require.False(t, p.Wait(func() bool { t.Error("polled"); return true }))
	require.Equal(t, places, polling.Load())
}

// TestNoGarbage checks that neither the sender nor the reader of a message allocates.
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

// BenchmarkRoundTrip sends one byte to another goroutine and back, with and without polling.
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

// TestReadPollerConsumesNothing checks that Wait returns once data has arrived, and that the reader
// still gets all of it.
func TestReadPollerConsumesNothing(t *testing.T) {
	a, b, r := pair(t, -1)
	l, err := NewReadPoller(a, time.Hour, func() bool { return false })
	require.NoError(t, err)
	time.AfterFunc(time.Millisecond, func() { _, _ = b.Write([]byte("all")) })
	l.Wait()
	got := make([]byte, 8)
	require.NoError(t, a.SetReadDeadline(time.Now().Add(patient)))
	n, err := r.Read(got)
	require.NoError(t, err)
	require.Equal(t, "all", string(got[:n]))

	stopped := 0
	l, err = NewReadPoller(a, time.Hour, func() bool { stopped++; return stopped == 3 })
	require.NoError(t, err)
	l.Wait()
	require.Equal(t, 3, stopped)
	require.NoError(t, a.Close())
	l.Wait()
	require.Equal(t, 3, stopped, "a closed connection is not polled")
}
