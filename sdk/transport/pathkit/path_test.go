package pathkit_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/pathkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ample = pathkit.Limits{Ops: 1 << 10, Timeout: 10 * time.Second}

func read(id uint64, deadline time.Time) transport.Op {
	return transport.Op{ID: id, Kind: transport.Read, Local: make([]byte, 10), Remote: 1, Deadline: deadline}
}

// TestDeadlines runs in time that the test makes: each operation ends at its own deadline.
func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPath(ample)
		_, err := p.add("k", 100)
		require.NoError(t, err)
		begin := time.Now()
		in := func(d time.Duration) time.Time { return begin.Add(d) }
		_, err = p.submit(read(1, in(3*time.Second)), read(2, in(time.Second)), read(3, time.Time{}), read(4, in(2*time.Second)), read(5, in(time.Second)))
		require.NoError(t, err)

		dst := make([]transport.Completion, 8)
		for _, want := range []struct {
			at  time.Duration
			ids []uint64
		}{{time.Second, []uint64{5, 2}}, {2 * time.Second, []uint64{4}}, {3 * time.Second, []uint64{1}}, {ample.Timeout, []uint64{3}}} {
			n, err := p.Reap(t.Context(), dst)
			require.NoError(t, err)
			require.Equal(t, want.at, time.Since(begin))
			var got []uint64
			for _, c := range dst[:n] {
				got = append(got, c.ID)
				require.Equal(t, transport.Failed, c.Status)
				require.True(t, errs.Is(c.Err, errs.RPCTimeout))
				require.Equal(t, errs.ClassTransientPath, c.Class())
				require.ErrorIs(t, c.Err, context.DeadlineExceeded)
			}
			require.Equal(t, want.ids, got)
		}
	})
}

// TestDeadlineAhead: an operation that is due before all others moves the clock forward, one
// that is late already does not start it, and deadlines closer together than a millisecond merge.
func TestDeadlineAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPath(ample)
		_, err := p.add("k", 100)
		require.NoError(t, err)
		begin := time.Now()
		_, err = p.submit(read(1, begin.Add(time.Hour)), read(2, begin), read(3, begin.Add(time.Nanosecond)))
		require.NoError(t, err)
		time.Sleep(999 * time.Microsecond)
		synctest.Wait()
		p.mu.Lock()
		require.Empty(t, p.expired)
		require.True(t, p.find(2).Late(time.Now()))
		require.False(t, p.find(1).Late(time.Now()))
		p.mu.Unlock()
		time.Sleep(time.Microsecond)
		synctest.Wait()
		p.mu.Lock()
		require.Equal(t, []uint64{3, 2}, p.expired)
		p.mu.Unlock()
		time.Sleep(time.Hour)
		synctest.Wait()
		p.mu.Lock()
		require.Equal(t, []uint64{3, 2, 1}, p.expired)
		p.mu.Unlock()
	})
}

// TestDeadlineKept: an operation that its transport cannot end yet is not asked about
// over and over, and does not keep the others from their deadlines.
func TestDeadlineKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPath(ample)
		p.keep = true
		_, err := p.add("k", 100)
		require.NoError(t, err)
		begin := time.Now()
		_, err = p.submit(read(1, begin.Add(time.Second)), read(2, begin.Add(time.Minute)))
		require.NoError(t, err)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		require.Equal(t, []uint64{1, 2, 1}, p.expired)
		require.True(t, p.Shut())
	})
}

// TestShutStopsTheClock: after Shut no deadline is looked at.
func TestShutStopsTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPath(ample)
		_, err := p.add("k", 100)
		require.NoError(t, err)
		_, err = p.submit(read(1, time.Time{}))
		require.NoError(t, err)
		p.mu.Lock()
		require.True(t, p.Shut())
		p.mu.Unlock()
		time.Sleep(time.Hour)
		synctest.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		require.Empty(t, p.expired)
		p.Finish(p.find(1), p.ErrClosed(), false)
	})
}

// TestReapers lets several reapers wait. Each completion must wake one that takes it, none may be
// lost or returned twice, and the end must wake all. synctest notices a reaper that sleeps forever.
func TestReapers(t *testing.T) {
	const reapers, rounds, batch = 4, 200, 3
	synctest.Test(t, func(t *testing.T) {
		p := newTestPath(ample)
		_, err := p.add("k", 100)
		require.NoError(t, err)
		var seen sync.Map
		var count atomic.Int64
		var all sync.WaitGroup
		for i := range reapers {
			all.Go(func() {
				dst := make([]transport.Completion, i%2+1)
				for {
					n, err := p.Reap(t.Context(), dst)
					for _, c := range dst[:n] {
						if _, twice := seen.LoadOrStore(c.ID, true); twice {
							t.Errorf("completion %d came twice", c.ID)
						}
						count.Add(1)
					}
					if errors.Is(err, transport.ErrPathClosed) {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		for r := range uint64(rounds) {
			ops := make([]transport.Op, batch)
			for i := range ops {
				ops[i] = read(r*batch+uint64(i), time.Time{})
			}
			n, err := p.submit(ops...)
			require.NoError(t, err)
			require.Equal(t, batch, n)
			p.mu.Lock()
			for o := range p.Active() {
				p.Finish(o, nil, false)
			}
			p.mu.Unlock()
			if r%10 == 0 {
				synctest.Wait() // All completions are taken when no goroutine runs any more.
				require.EqualValues(t, (r+1)*batch, count.Load())
			}
		}
		p.mu.Lock()
		p.Shut()
		p.mu.Unlock()
		all.Wait()
		require.EqualValues(t, rounds*batch, count.Load())
	})
}

// TestEndComesAfterTheLastOperation: a closed path ends for its reapers only once the
// operation that its transport could not end at once is completed and reaped.
func TestEndComesAfterTheLastOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPath(ample)
		_, err := p.add("k", 100)
		require.NoError(t, err)
		_, err = p.submit(read(1, time.Time{}))
		require.NoError(t, err)
		p.mu.Lock()
		p.Shut()
		p.mu.Unlock()
		var ended atomic.Int64
		for range 2 {
			go func() {
				dst := make([]transport.Completion, 1)
				for {
					if _, err := p.Reap(t.Context(), dst); err != nil {
						ended.Add(1)
						return
					}
				}
			}()
		}
		synctest.Wait()
		require.Zero(t, ended.Load())
		p.mu.Lock()
		p.Finish(p.find(1), p.ErrClosed(), false)
		p.mu.Unlock()
		synctest.Wait()
		require.EqualValues(t, 2, ended.Load())
	})
}

// TestSignalWakesAPoller: Await returns for a Signal without a completion.
func TestSignalWakesAPoller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPath(ample)
		woken := make(chan error, 1)
		go func() { woken <- p.Await(t.Context()) }()
		synctest.Wait()
		require.Empty(t, woken)
		p.Signal()
		require.NoError(t, <-woken)
		n, err := p.Take(make([]transport.Completion, 1))
		require.Zero(t, n)
		require.NoError(t, err)
	})
}

func TestKeysAreBounded(t *testing.T) {
	p := newTestPath(ample)
	for i := range pathkit.MaxKeys {
		id, err := p.add(fmt.Sprint("key", i), 1)
		require.NoError(t, err)
		require.EqualValues(t, i+1, id)
	}
	_, err := p.add("one more", 1)
	require.True(t, errs.Is(err, errs.BufferOverflow), "%v", err)
	id, err := p.add("key7", 1)
	require.NoError(t, err, "one that is there already")
	require.EqualValues(t, 8, id)
}

// TestKeyIsCopied: the caller may use the memory of a key again.
func TestKeyIsCopied(t *testing.T) {
	p := newTestPath(ample)
	k := transport.Key("one")
	p.mu.Lock()
	defer p.mu.Unlock()
	one, err := p.AddKey(k, 1, 1, 1)
	require.NoError(t, err)
	copy(k, "two")
	two, err := p.AddKey(k, 1, 1, 1)
	require.NoError(t, err)
	require.NotEqual(t, one, two)
}

func TestFinishTwicePanics(t *testing.T) {
	p := newTestPath(ample)
	_, err := p.add("k", 100)
	require.NoError(t, err)
	_, err = p.submit(read(1, time.Time{}), read(2, time.Time{}))
	require.NoError(t, err)
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.find(1)
	p.Finish(o, nil, false)
	require.Panics(t, func() { p.Finish(o, nil, false) })
	require.Panics(t, func() { p.Finish(new(testOp), nil, false) })
	stranger := *p.find(2)
	require.Panics(t, func() { p.Finish(&stranger, nil, false) })
	require.Equal(t, 1, p.Len())
	require.Equal(t, 1, p.Pending())
	p.Shut()
}

func TestErrors(t *testing.T) {
	p := newTestPath(ample)
	cause := errors.New("the reason")
	for _, c := range []struct {
		err   error
		is    error
		code  errs.Code
		class errs.Class
		text  string
	}{
		{p.ErrClosed(), transport.ErrPathClosed, errs.TransferFail, errs.ClassTransientPath, "transport/test: path: TRANSFER_FAIL: the path is closed"},
		{p.ErrDeadline(nil), context.DeadlineExceeded, errs.RPCTimeout, errs.ClassTransientPath, "deadline exceeded"},
		{p.ErrDeadline(cause), context.DeadlineExceeded, errs.RPCTimeout, errs.ClassTransientPath, "deadline exceeded; before: the reason"},
		{p.ErrDeadline(cause), cause, errs.RPCTimeout, errs.ClassTransientPath, ""},
		{p.ErrKey(cause), cause, errs.InvalidKey, errs.ClassOf(errs.New(errs.InvalidKey, "", "")), "transport/test: path: import key: INVALID_KEY: the reason"},
		{p.ErrIncarnation(3, 4), nil, errs.InvalidKey, errs.ClassTransientPeer, "incarnation 3, the dialled endpoint of 4 (fetch the peer's"},
	} {
		if c.is != nil {
			require.ErrorIs(t, c.err, c.is)
		}
		require.Equal(t, c.code, errs.CodeOf(c.err), "%v", c.err)
		require.Equal(t, c.class, errs.ClassOf(c.err), "%v", c.err)
		require.ErrorContains(t, c.err, c.text)
	}
	require.Equal(t, "transport/test: path", p.Name())
}

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTestPath(ample)
		var wg sync.WaitGroup
		require.NoError(t, p.Drain(t.Context(), &wg, "nothing"))
		wg.Add(1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := p.Drain(ctx, &wg, "connections are ending")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "transport/test: path: close: connections are ending")
		time.AfterFunc(time.Second, wg.Done)
		require.NoError(t, p.Drain(t.Context(), &wg, ""))
	})
}

// TestSums checks that a completion has a checksum if the caller asked for one and the operation is
// OK.
func TestSums(t *testing.T) {
	p := newTestPath(ample)
	_, err := p.add("k", 100)
	require.NoError(t, err)
	asks := read(1, time.Time{})
	asks.Sum = true
	fails := asks
	fails.ID = 2
	_, err = p.submit(asks, fails, read(3, time.Time{}))
	require.NoError(t, err)
	p.mu.Lock()
	for o := range p.Active() {
		o.Checksum, o.Summed = 7, true
		var err error
		if o.ID == 2 {
			err = errors.New("lost")
		}
		p.Finish(o, err, false)
	}
	p.mu.Unlock()
	dst := make([]transport.Completion, 8)
	n, err := p.Reap(t.Context(), dst)
	require.NoError(t, err)
	require.Equal(t, 3, n)
	for _, c := range dst[:n] {
		require.Equal(t, c.ID == 1, c.Summed, c.ID)
		require.Equal(t, c.Summed, c.Sum == 7, c.ID)
	}
}
