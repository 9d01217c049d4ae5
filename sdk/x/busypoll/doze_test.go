package busypoll

import (
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patiently makes dozes last as long as a test takes, so that how busy the machine is changes nothing.
func patiently(t *testing.T) {
	if alone {
		t.Skip("no goroutine dozes with GOMAXPROCS 1")
	}
	dozes = time.Minute
	calm.Store(0)
	t.Cleanup(func() { dozes = dozeLimit })
}

// until waits until f returns true.
func until(t *testing.T, f func() bool) {
	t.Helper()
	require.Eventually(t, f, patient, 100*time.Microsecond)
}

// TestAWaitCostsOneSleep gates what waits cost that are longer than a poll: one sleep each, in a system call
// of their own. The watch set, which takes three wake-ups, never hears of the connection.
func TestAWaitCostsOneSleep(t *testing.T) {
	patiently(t)
	c, there := adopted(t)
	r, err := NewReader(c, time.Nanosecond)
	require.NoError(t, err)
	const waits = 50
	got := make(chan error)
	go func() {
		b := make([]byte, 8)
		for range waits {
			_, err := r.Read(b)
			got <- err
		}
	}()
	for range waits {
		until(t, func() bool { return dozing.Load() == 1 })
		_, err := there.Write([]byte("answer"))
		require.NoError(t, err)
		require.NoError(t, <-got)
	}
	require.False(t, c.known, "a wait armed the watch set")
}

// TestABulkReadTakesMuchAtOnce gates how many reads a payload costs that arrives in small pieces.
func TestABulkReadTakesMuchAtOnce(t *testing.T) {
	patiently(t)
	c, there := adopted(t)
	r, err := NewReader(c, 0)
	require.NoError(t, err)
	const size, piece = 1 << 20, 16 << 10
	var reads atomic.Int64
	ended := make(chan error)
	go func() {
		var err error
		for b := make([]byte, size); len(b) > 0 && err == nil; {
			var n int
			n, err = r.Read(b)
			b = b[n:]
			reads.Add(1)
		}
		ended <- err
	}()
	for mark := range int64(size / bulkMark) {
		until(t, func() bool { return dozing.Load() == 1 && reads.Load() == mark })
		for range bulkMark / piece {
			_, err := there.Write(make([]byte, piece))
			require.NoError(t, err)
		}
	}
	require.NoError(t, <-ended)
	require.EqualValues(t, size/bulkMark, reads.Load())
}

// TestSmallReadsAfterBulkWakeAtOnce: what a bulk read waited for does not hold up what follows it, neither a
// doze nor a sleep in the watch set.
func TestSmallReadsAfterBulkWakeAtOnce(t *testing.T) {
	patiently(t)
	c, there := adopted(t)
	r, err := NewReader(c, time.Nanosecond)
	require.NoError(t, err)
	for _, read := range []func([]byte) (int, error){r.Read, r.ReadAsleep} {
		got := make(chan int)
		go func() {
			n, _ := r.Read(make([]byte, 2*bulkMark))
			got <- n
			n, _ = read(make([]byte, 8))
			got <- n
		}()
		until(t, func() bool { return dozing.Load() == 1 })
		_, err = there.Write(make([]byte, bulkMark))
		require.NoError(t, err)
		require.Equal(t, bulkMark, <-got)
		_, err = there.Write([]byte("head"))
		require.NoError(t, err)
		require.Equal(t, 4, <-got)
	}
}

// TestADozeEnds: it ends with the connection at once where the peer closes, and with the limit where it is
// closed here, or its deadline passes.
func TestADozeEnds(t *testing.T) {
	c, there := adopted(t)
	r, err := NewReader(c, time.Nanosecond)
	require.NoError(t, err)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(5*time.Millisecond)))
	_, err = r.Read(make([]byte, 8))
	require.True(t, IsTimeout(err), "%v", err)
	require.NoError(t, c.SetReadDeadline(time.Time{}))

	got := make(chan error)
	go func() {
		_, err := r.Read(make([]byte, 8))
		got <- err
	}()
	require.NoError(t, there.Close())
	require.ErrorIs(t, <-got, io.EOF)

	go func() {
		_, err := r.Read(make([]byte, 8)) // There is the end of the stream to read, or the connection is closed.
		got <- err
	}()
	require.NoError(t, c.Close())
	require.Error(t, <-got)
}

// TestFewDoze: each keeps a thread, so their number is bounded. If there would be more, none dozes for a while, and
// all sleep in the watch set.
func TestFewDoze(t *testing.T) {
	patiently(t)
	was := beds
	beds = 1
	t.Cleanup(func() { beds = was; calm.Store(0) })
	got := make(chan error)
	read := func(c *Conn) {
		r, err := NewReader(c, time.Nanosecond)
		if err == nil {
			_, err = r.Read(make([]byte, 8))
		}
		got <- err
	}
	var peers []*Conn
	for i := range 3 {
		c, peer := adopted(t)
		peers = append(peers, peer)
		go read(c)
		until(t, func() bool { return dozing.Load() == 1 && (i == 0 || watched(c)) })
		if i == 1 {
			require.False(t, mayDoze())
			calm.Store(int64(time.Since(began) + time.Minute)) // However long this test takes.
			beds = 3
		}
	}
	for _, peer := range peers {
		_, err := peer.Write([]byte("answer"))
		require.NoError(t, err)
		require.NoError(t, <-got)
	}
}
