package pathkit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

const stall = 5 * time.Second

// stalling submits a read with a stall limit and a far deadline to a path with a meter.
func stalling(t *testing.T, meter func() uint64, ids ...uint64) *testPath {
	t.Helper()
	p := newTestPath(ample)
	p.mu.Lock()
	p.Meter(meter)
	p.mu.Unlock()
	_, err := p.add("k", 100)
	require.NoError(t, err)
	for _, id := range ids {
		o := read(id, time.Now().Add(time.Hour))
		o.Stall = stall
		_, err = p.submit(o)
		require.NoError(t, err)
	}
	return p
}

// ended returns the operations that were ended by now.
func (p *testPath) ended() []uint64 {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]uint64(nil), p.expired...)
}

// TestStall: an operation whose path moves nothing ends after its stall limit, and not much later.
func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := stalling(t, func() uint64 { return 7 }, 1)
		time.Sleep(stall - time.Second)
		require.Empty(t, p.ended())
		time.Sleep(time.Second + stall/8)
		require.Equal(t, []uint64{1}, p.ended())
	})
}

// TestProgress checks that an operation that waits behind others does not stall as long as the
// meter advances, and stalls when the meter stops.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		p := stalling(t, func() uint64 { return uint64(min(time.Since(began), time.Minute) / (stall / 2)) }, 1)
		time.Sleep(time.Minute + stall/2)
		require.Empty(t, p.ended())
		time.Sleep(stall)
		require.Equal(t, []uint64{1}, p.ended())
	})
}

// TestFinishedIsProgress: what ends well counts without a meter; what fails does not.
func TestFinishedIsProgress(t *testing.T) {
	for name, failure := range map[string]error{"ended well": nil, "failed": context.Canceled} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := stalling(t, nil, 1, 2)
				time.Sleep(stall - time.Second)
				p.mu.Lock()
				p.Finish(p.find(2), failure, false)
				p.mu.Unlock()
				time.Sleep(stall - time.Second)
				if failure == nil {
					require.Empty(t, p.ended())
				} else {
					require.Equal(t, []uint64{1}, p.ended())
				}
				time.Sleep(stall)
				require.Equal(t, []uint64{1}, p.ended())
			})
		})
	}
}

// TestPatience: the stall limits of a path to a far peer are longer.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := stalling(t, nil, 1)
		p.mu.Lock()
		p.Patience(3)
		p.mu.Unlock()
		time.Sleep(3*stall - time.Second)
		require.Empty(t, p.ended())
		time.Sleep(2 * time.Second)
		require.Equal(t, []uint64{1}, p.ended())
	})
}

// TestDeadlineBeforeStall: progress does not outlast the deadline.
func TestDeadlineBeforeStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		p := newTestPath(ample)
		p.mu.Lock()
		p.Meter(func() uint64 { return uint64(time.Since(began)) })
		p.mu.Unlock()
		_, err := p.add("k", 100)
		require.NoError(t, err)
		o := read(1, began.Add(20*time.Second))
		o.Stall = stall
		_, err = p.submit(o)
		require.NoError(t, err)
		time.Sleep(20*time.Second - time.Millisecond)
		require.Empty(t, p.ended())
		time.Sleep(2 * time.Millisecond)
		require.Equal(t, []uint64{1}, p.ended())
	})
}

// TestErrOverdue says which of the two limits was met.
func TestErrOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := stalling(t, nil, 1)
		p.mu.Lock()
		defer p.mu.Unlock()
		err := p.ErrOverdue(p.find(1), context.Canceled)
		require.ErrorContains(t, err, "nothing has moved for 5s")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, context.Canceled)
		require.True(t, errs.Is(err, errs.RPCTimeout))
		require.Equal(t, errs.ClassTransientPath, errs.ClassOf(err))
		late := p.Accept(&transport.Op{ID: 2, Kind: transport.Read, Remote: 1, Deadline: time.Now(), Stall: stall}, time.Now())
		require.NotContains(t, p.ErrOverdue(late, nil).Error(), "moved")
		p.Shut()
	})
}

// hastyRead submits a hasty read with a stall limit and a far deadline.
func (p *testPath) hastyRead(t *testing.T, id uint64) {
	t.Helper()
	o := read(id, time.Now().Add(time.Hour))
	o.Stall, o.Hasty = stall, true
	_, err := p.submit(o)
	require.NoError(t, err)
}

// hearing makes a path whose peer's machine takes bytes all the time, and whose peer says what heard
// returns. One operation has ended well.
func hearing(t *testing.T, heard func() uint64) *testPath {
	t.Helper()
	began := time.Now()
	p := stalling(t, func() uint64 { return uint64(time.Since(began)) }, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Hearing(heard)
	p.Finish(p.find(1), nil, false)
	return p
}

// TestHastyReadLeavesASilentPeer, whose machine still acknowledges what is sent to it. What is not
// hasty waits, and so does a write, which is for the transport to judge.
func TestHastyReadLeavesASilentPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := hearing(t, nil)
		p.hastyRead(t, 2)
		for id, kind := range map[uint64]transport.OpKind{3: transport.Read, 4: transport.Write} {
			o := read(id, time.Now().Add(time.Minute))
			o.Kind, o.Hasty, o.Stall = kind, kind == transport.Write, stall
			_, err := p.submit(o)
			require.NoError(t, err)
		}
		time.Sleep(200 * time.Millisecond)
		require.Empty(t, p.ended())
		p.mu.Lock()
		require.Equal(t, errs.ClassTransientPath, errs.ClassOf(p.ErrOverdue(p.find(3), nil)))
		p.mu.Unlock()
		time.Sleep(200 * time.Millisecond)
		require.Equal(t, []uint64{2}, p.ended())
		time.Sleep(30 * time.Second)
		require.Equal(t, []uint64{2}, p.ended(), "bytes move, and others have nowhere to go")
	})
}

// TestHastyReadSaysSo: the class tells the caller that another copy will do.
func TestHastyReadSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := hearing(t, nil)
		p.hastyRead(t, 2)
		time.Sleep(time.Second)
		require.Equal(t, []uint64{2}, p.ended())
		var done [2]transport.Completion // The first is that of hearing.
		n, reaped := p.Reap(t.Context(), done[:])
		require.NoError(t, reaped)
		require.Equal(t, 2, n)
		require.Equal(t, transport.Failed, done[1].Status)
		err := done[1].Err
		require.Equal(t, errs.ClassTransientPeer, errs.ClassOf(err))
		require.True(t, errs.Is(err, errs.RPCTimeout))
		require.ErrorContains(t, err, "the peer was silent for 300ms")
	})
}

// TestHastyReadStaysWhileBytesCome, however slowly: the silence counts, not the time.
func TestHastyReadStaysWhileBytesCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		p := hearing(t, func() uint64 { return uint64(min(time.Since(began), time.Minute) / (200 * time.Millisecond)) })
		p.hastyRead(t, 2)
		time.Sleep(time.Minute)
		require.Empty(t, p.ended())
		time.Sleep(time.Second)
		require.Equal(t, []uint64{2}, p.ended())
	})
}

// TestHastyReadIsPatient with a peer that is far, or has not answered yet: no round trip is known of a
// path that is still connecting. A short stall limit leaves half of it to the other copy.
func TestHastyReadIsPatient(t *testing.T) {
	for name, c := range map[string]struct {
		patience int
		answered bool
		stall    time.Duration
		limit    time.Duration
	}{
		"near":    {1, true, stall, 300 * time.Millisecond},
		"far":     {3, true, stall, 900 * time.Millisecond},
		"unknown": {1, false, stall, 900 * time.Millisecond},
		"short":   {1, true, 200 * time.Millisecond, 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := stalling(t, nil, 1)
				p.mu.Lock()
				p.Hearing(nil)
				p.Patience(c.patience)
				if c.answered {
					p.Finish(p.find(1), nil, false)
				}
				p.mu.Unlock()
				o := read(2, time.Now().Add(time.Hour))
				o.Stall, o.Hasty = c.stall, true
				_, err := p.submit(o)
				require.NoError(t, err)
				time.Sleep(c.limit * 9 / 10)
				require.Empty(t, p.ended())
				time.Sleep(c.limit / 4)
				require.Equal(t, []uint64{2}, p.ended())
			})
		})
	}
}

// TestOtherPathsKnowNoHaste: a transport that does not ask for it keeps to the stall limit.
func TestOtherPathsKnowNoHaste(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := stalling(t, nil)
		p.hastyRead(t, 1)
		time.Sleep(stall - time.Second)
		require.Empty(t, p.ended())
		time.Sleep(2 * time.Second)
		require.Equal(t, []uint64{1}, p.ended())
	})
}
