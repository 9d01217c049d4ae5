package tier_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/tier/tiertest/faulty"
)

// slow is a disk whose reads end when the test says so.
type slow struct {
	*rig
	put ledger.Put // of 1 MiB
}

func newSlow(t *testing.T) *slow {
	s := &slow{rig: newRig(t, nil)}
	var err error
	s.put, err = s.save(context.Background(), "a", 1<<20)
	require.NoError(t, err)
	s.plan.Fault(faulty.Slow, faulty.When{Match: func(o tier.Op) bool { return o.Kind == tier.Read }})
	return s
}

// begin begins n reads that may take so long.
func (s *slow) begin(n int, patience time.Duration) (ended []<-chan error) {
	for range n {
		end := make(chan error, 1)
		ended = append(ended, end)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			_, err := s.read(ctx, s.put, 1<<20)
			end <- err
		}()
		synctest.Wait() // They begin one after the other.
	}
	return ended
}

// served is how many reads the storage got.
func (s *slow) served() uint64 { return s.plan.Count(faulty.Slow) }

// took lets n reads take so long, at the same time.
func (s *slow) took(n int, d time.Duration) {
	ended := s.begin(n, time.Minute)
	time.Sleep(d)
	s.plan.Release()
	for _, e := range ended {
		require.NoError(s.t, <-e)
	}
}

// TestReadsThatWouldBeLateFailAtOnce: once it is known how fast the storage reads, a read that would not end by its deadline
// fails without waiting, and the storage does not get it. One that waits for no other is tried.
func TestReadsThatWouldBeLateFailAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlow(t)
		s.took(2, 2*time.Second) // 1 MiB a second
		before := s.served()
		first := s.begin(1, 10*time.Millisecond)
		require.Equal(t, before+1, s.served())
		s.plan.Release()
		synctest.Wait()
		require.NoError(t, <-first[0])

		waiting := s.begin(2, time.Minute)
		before = s.served()
		began := time.Now()
		err := <-s.begin(1, 2900*time.Millisecond)[0]
		require.Equal(t, began, time.Now(), "it did not wait")
		require.True(t, errs.Is(err, errs.UnavailableInCurrentStatus), "%v", err)
		require.ErrorContains(t, err, "it is busy: with the 2097152 bytes that it reads first, this read takes about 3.0 s, and the reader waits for 2.9s")
		require.Equal(t, before, s.served())
		waiting = append(waiting, s.begin(1, 3100*time.Millisecond)...)
		require.Equal(t, before+1, s.served(), "it has time enough")
		s.plan.Release()
		for _, e := range waiting {
			require.NoError(t, <-e)
		}
	})
}

// TestRateIsThatOfTheStorage: readers that ask for little at a time do not make the storage seem slow.
func TestRateIsThatOfTheStorage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlow(t)
		for range 4 {
			s.took(1, time.Second)
		}
		waiting := s.begin(4, time.Second)
		require.EqualValues(t, 8, s.served())
		s.plan.Release()
		for _, e := range waiting {
			require.NoError(t, <-e)
		}
	})
}

// TestSavesWaitForReaders: while reads take long, something may be saved once a second, and at any time once they are fast
// again or there are none.
func TestSavesWaitForReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlow(t)
		for range 4 {
			s.took(1, 400*time.Millisecond)
			require.True(t, s.disk.MaySave())
			require.True(t, s.disk.MaySave())
		}
		for range 8 {
			s.took(1, time.Second)
		}
		require.True(t, s.disk.MaySave(), "it is tried")
		require.False(t, s.disk.MaySave())
		s.took(1, time.Second)
		require.True(t, s.disk.MaySave(), "it is tried again")
		require.False(t, s.disk.MaySave())
		time.Sleep(1100 * time.Millisecond)
		require.True(t, s.disk.MaySave(), "there are no readers")
		require.True(t, s.disk.MaySave())
		s.took(1, 100*time.Millisecond)
		require.True(t, s.disk.MaySave(), "what was before has no say")
		for range 8 {
			s.took(1, time.Second)
		}
		s.disk.MaySave()
		require.False(t, s.disk.MaySave())
		for range 8 {
			s.took(1, time.Millisecond)
		}
		require.True(t, s.disk.MaySave(), "reads are fast again")
		require.True(t, s.disk.MaySave())
	})
}
