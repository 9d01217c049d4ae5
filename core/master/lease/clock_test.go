package lease

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// stoppable is a clock whose process the test stops.
type stoppable struct {
	Clock
	at atomic.Int64
}

func newStoppable() *stoppable {
	s := &stoppable{}
	s.Clock = newClock(time.Now(), func() Instant { return Instant(s.at.Load()) + 1 })
	s.tick()
	return s
}

// runs lets the process run, with a tick at each interval.
func (s *stoppable) runs(d time.Duration) {
	for ; d > 0; d -= tick {
		s.at.Add(int64(min(d, tick)))
		s.tick()
	}
}

// stops stops the process.
func (s *stoppable) stops(d time.Duration) { s.at.Add(int64(d)) }

func TestClockStandsStillWhileTheProcessDoes(t *testing.T) {
	c := newStoppable()
	c.runs(10 * time.Second)
	before := c.Now()
	require.Equal(t, Instant(1).Add(10*time.Second), before, "a process that runs loses nothing")

	c.stops(time.Hour)
	woken := c.Now()
	require.LessOrEqual(t, woken.Sub(before), patience, "before the next tick")
	require.Equal(t, time.Hour, c.tick(), "the length of the pause")
	require.Equal(t, woken, c.Now(), "the tick itself moves nothing")
	require.Equal(t, c.epoch.Add(10*time.Second+time.Hour+1), c.Time(c.Now()), "the wall clock went on")
	require.Equal(t, time.Duration(c.Now()), c.Stamp().Sub(c.epoch))

	c.runs(time.Minute)
	require.Equal(t, time.Minute, c.Now().Sub(woken), "from then on it follows the process again")
	c.stops(patience)
	require.Zero(t, c.tick(), "so short a pause is time that passes")
	require.Equal(t, time.Minute+patience, c.Now().Sub(woken))
}

func TestClockNeverGoesBack(t *testing.T) {
	c := newStoppable()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for last := c.Now(); ctx.Err() == nil; {
				now := c.Now()
				if now < last {
					t.Errorf("%d after %d", now, last)
					return
				}
				last = now
			}
		})
	}
	for i := range 20000 {
		c.stops(time.Duration(i%7) * time.Second)
		c.tick()
		c.runs(tick)
	}
	cancel()
	all.Wait()
}

func always() bool { return true }

func TestClockThatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClock()
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { c.Run(ctx, always, func(d time.Duration) { t.Errorf("a pause of %v", d) }) })
		synctest.Wait()
		start := c.Now()
		time.Sleep(time.Hour)
		require.Equal(t, time.Hour, c.Now().Sub(start))
		cancel()
		run.Wait()
		time.Sleep(time.Hour)
		require.Equal(t, 2*time.Hour, c.Now().Sub(start), "no loop ticks any more")
	})
}

// TestClockWaitsForItsProcess: a process that does not act counts as one that does not run.
func TestClockWaitsForItsProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClock()
		ctx, cancel := context.WithCancel(t.Context())
		var acts atomic.Bool
		var pauses []time.Duration
		var run sync.WaitGroup
		acts.Store(true)
		run.Go(func() { c.Run(ctx, acts.Load, func(d time.Duration) { pauses = append(pauses, d) }) })
		time.Sleep(10 * time.Second)
		acts.Store(false)
		before := c.Now()
		time.Sleep(time.Hour)
		require.LessOrEqual(t, c.Now().Sub(before), patience)
		acts.Store(true)
		time.Sleep(time.Second)
		require.LessOrEqual(t, c.Now().Sub(before), patience+time.Second+tick)
		cancel()
		run.Wait()
		require.Len(t, pauses, 1)
		require.InDelta(t, time.Hour, pauses[0], float64(time.Second))
	})
}
