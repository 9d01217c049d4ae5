package tcp

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// TestSubmitSendsWhatIsShort: by itself, where the waiting goroutine polls for answers and a lane is free.
func TestSubmitSendsWhatIsShort(t *testing.T) {
	r := newPair(t, 2*directBytes, single)
	r.ok(t, r.read(make([]byte, 8))) // There is a lane now.
	for name, c := range map[string]struct {
		ops    []transport.Op
		direct bool
	}{
		"a read":          {[]transport.Op{r.read(make([]byte, 2*directBytes))}, true},
		"a write":         {[]transport.Op{r.write(make([]byte, directBytes))}, true},
		"a longer write":  {[]transport.Op{r.write(make([]byte, directBytes+1))}, false},
		"two long writes": {[]transport.Op{r.write(make([]byte, directBytes)), r.write(make([]byte, 1))}, false},
		"both":            {[]transport.Op{r.write(make([]byte, 100)), r.read(make([]byte, 100))}, true},
		"many":            {make([]transport.Op, directOps+1), false},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range c.ops {
				if c.ops[i].Local == nil {
					c.ops[i] = r.read(make([]byte, 8))
				}
				c.ops[i].ID = uint64(i)
			}
			until(t, "the writer rests", func() bool {
				r.path.mu.Lock()
				defer r.path.mu.Unlock()
				return len(r.path.lanes) == 1 && r.path.lanes[0].parked
			})
			// What Submit does is done with path.mu or lane.sending held, what the writer does with both
			// at its begin: with the former held here, it has sent nothing when Submit returns.
			l := r.path.lanes[0]
			before := r.client.Stats().WriteCalls
			r.path.mu.Lock()
			for i := range c.ops {
				key, err := r.path.Check(&c.ops[i])
				require.NoError(t, err)
				r.path.accept(&c.ops[i], key, time.Now())
			}
			r.path.direct()
			sent := r.client.Stats().WriteCalls - before
			free := l.sending.TryLock()
			if free {
				l.sending.Unlock()
			}
			r.path.kick()
			r.path.mu.Unlock()
			require.True(t, free)
			if c.direct {
				require.EqualValues(t, 1, sent, "requests and payloads in one call")
			} else {
				require.Zero(t, sent)
			}
			for range c.ops {
				got := r.reap(t)
				require.Equal(t, transport.OK, got.Status, "%v", got.Err)
			}
		})
	}
}

// TestWithoutAPollerTheWriterSends and polls for the answer as well.
func TestWithoutAPollerTheWriterSends(t *testing.T) {
	r := newPair(t, 64, single)
	r.ok(t, r.read(make([]byte, 8)))
	until(t, "the writer rests", func() bool {
		r.path.mu.Lock()
		defer r.path.mu.Unlock()
		return r.path.lanes[0].parked
	})
	op := r.read(make([]byte, 8))
	r.path.mu.Lock()
	r.path.attended = false
	key, err := r.path.Check(&op)
	require.NoError(t, err)
	before := r.client.Stats().WriteCalls
	r.path.accept(&op, key, time.Now())
	r.path.direct()
	require.Equal(t, before, r.client.Stats().WriteCalls)
	r.path.kick()
	r.path.mu.Unlock()
	require.Equal(t, transport.OK, r.reap(t).Status)
}

// TestSubmitLeavesTheRest: what the socket does not take at once is the writer's.
func TestSubmitLeavesTheRest(t *testing.T) {
	left := 0
	r := newPair(t, directBytes, single, func(c *Config) { c.SendBuffer, c.ReceiveBuffer = 4096, 32<<10 })
	r.ok(t, r.read(make([]byte, 8)))
	for i := range byte(10) {
		op := r.write(make([]byte, directBytes))
		fillWith(op.Local, i)
		n, err := r.path.Submit([]transport.Op{op})
		require.NoError(t, err)
		require.Equal(t, 1, n)
		r.path.mu.Lock()
		l := r.path.lanes[0]
		r.path.mu.Unlock()
		if l.sending.TryLock() { // Else the writer is at it.
			if l.w.rest {
				left++
			}
			l.sending.Unlock()
		} else {
			left++
		}
		c := r.reap(t)
		require.Equal(t, transport.OK, c.Status, "%v", c.Err)
		got := make([]byte, directBytes)
		r.ok(t, r.read(got))
		require.Equal(t, op.Local, got)
	}
	require.Positive(t, left, "a socket of 4 KiB does not take 64")
}

// TestIdleLaneOfASubmit: a lane leaves after its idle time also where a Submit used it, which its
// writer does not see: the server closes it not long after.
func TestIdleLaneOfASubmit(t *testing.T) {
	r := newPair(t, 64, single)
	r.ok(t, r.read(make([]byte, 8)))
	r.path.mu.Lock()
	defer r.path.mu.Unlock()
	l := r.path.lanes[0]
	require.False(t, l.owed())
	now := l.lastUsed.Add(l.idle / 4)
	require.Equal(t, l.idle-l.idle/4, l.mayRest(now))
	slot := l.free[len(l.free)-1]
	l.free = l.free[:len(l.free)-1]
	require.Equal(t, l.idle, l.mayRest(now), "with an answer owed it does not leave")
	l.free = append(l.free, slot)
}

// TestAttendEnds: with nothing to expect, when it is told to, and by itself.
func TestAttendEnds(t *testing.T) {
	r := newPair(t, 64, single)
	r.path.poll(func() bool { t.Error("nothing is owed"); return true })

	release := make(chan struct{})
	let := sync.OnceFunc(func() { close(release) })
	defer let()
	talk(t, r, func(c net.Conn) {
		_, _ = io.ReadFull(c, make([]byte, headerSize))
		<-release
	})
	n, err := r.path.Submit([]transport.Op{r.read(make([]byte, 8))})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	until(t, "an answer is owed", func() bool {
		if l := r.path.expecting(); l != nil {
			l.a.mu.Unlock()
			return true
		}
		return false
	})
	asked := 0
	until(t, "it was asked often enough", func() bool { // Others may have the only place to poll, and a wait is short.
		r.path.poll(func() bool { asked++; return asked >= 3 })
		return asked >= 3
	})
	require.Equal(t, 3, asked, "it ends when it is told to")
	r.path.poll(func() bool { return false }) // It returns.
	let()
	require.NotEqual(t, transport.OK, r.reap(t).Status)
}

// TestAttendAtOnce: many goroutines submit, wait, poll, and close, at the same time.
func TestAttendAtOnce(t *testing.T) {
	r, f := throughProxy(t, 1<<20, func(c *Config) { c.StallTimeout = 1e9 })
	var lost sync.Mutex
	count := 0
	f.set(func(_ bool, at int64, _ []byte) verdict {
		lost.Lock()
		defer lost.Unlock()
		if count++; count%97 == 0 && at > headerSize {
			return cut
		}
		return pass
	})
	rounds := 200
	if testing.Short() || raceBuild {
		rounds = 50
	}
	var work sync.WaitGroup
	for w := range 6 {
		work.Go(func() {
			p, err := r.client.Dial(context.Background(), transport.Endpoint{Blob: r.path.peer.encode(), Incarnation: r.path.peer.Incarnation})
			if err != nil {
				t.Error(err)
				return
			}
			shared := p.(*path)
			id, err := p.Import(context.Background(), r.key)
			if err != nil {
				t.Error(err)
				return
			}
			var both sync.WaitGroup
			for k := range 2 { // Two share each path.
				both.Go(func() {
					dst := make([]transport.Completion, 1)
					for i := range rounds {
						size := []int{8, 4096, directBytes, 2 * directBytes}[(i+w+k)%4]
						op := transport.Op{ID: uint64(i), Kind: transport.Read, Local: make([]byte, size), Remote: id}
						if n, err := shared.Submit([]transport.Op{op}); n != 1 || err != nil {
							t.Error(n, err)
							return
						}
						shared.poll(func() bool { return shared.Pending() > 0 })
						if n, err := shared.Reap(context.Background(), dst); n != 1 || err != nil {
							t.Error(n, err)
							return
						}
					}
				})
			}
			both.Wait()
			if err := p.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
	require.Positive(t, count)
}
