package drain

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestCancel(t *testing.T) {
	b := newBench(t, "a", "b")
	for i := range 4 {
		b.pool.put(key(i), 1, "a")
	}
	require.True(t, errs.Is(b.Cancel(model.JobID{Hi: 1}, b.now), errs.JobNotFound))
	_, err := b.Query(model.JobID{Hi: 1})
	require.True(t, errs.Is(err, errs.JobNotFound))
	id := b.create(model.DrainSpec{Segments: []string{"a"}, MaxConcurrency: 2})
	b.settle(1)
	require.True(t, errs.Is(b.Cancel(id, b.now), errs.UnavailableInCurrentStatus))
	b.pool.finishAll("")
	b.settle(2)
	require.Empty(t, b.pool.order, "none begin after the wish to cancel")
	require.NoError(t, b.Cancel(id, b.now))
	require.Equal(t, model.JobCanceled, b.query(id).Status)
	require.Equal(t, model.SegmentOK, b.pool.segments["a"])
	require.Equal(t, 2, b.pool.on("a"))
	require.Zero(t, b.Running())

	id = b.create(model.DrainSpec{Segments: []string{"a"}, MaxConcurrency: 1})
	b.settle(1)
	require.Error(t, b.Cancel(id, b.now))
	b.pool.finishAll("")
	b.settle(int(cancelHold/tick) + 1)
	require.Len(t, b.pool.order, 1, "no client asked again, so it goes on")
}

func TestWhatCannotBeDrained(t *testing.T) {
	b := newBench(t, "a", "b", "c")
	many := make([]string, MaxSegments+1)
	for _, c := range []struct {
		spec model.DrainSpec
		code errs.Code
	}{
		{model.DrainSpec{MaxConcurrency: 1}, errs.InvalidParams},
		{model.DrainSpec{Segments: many, MaxConcurrency: 1}, errs.InvalidParams},
		{model.DrainSpec{Segments: []string{"a"}}, errs.InvalidParams},
		{model.DrainSpec{Segments: []string{"a"}, MaxConcurrency: MaxConcurrency + 1}, errs.InvalidParams},
		{model.DrainSpec{Segments: []string{"a", "a"}, MaxConcurrency: 1}, errs.InvalidParams},
		{model.DrainSpec{Segments: []string{""}, MaxConcurrency: 1}, errs.InvalidParams},
		{model.DrainSpec{Segments: []string{"a"}, Targets: []string{"a"}, MaxConcurrency: 1}, errs.InvalidParams},
		{model.DrainSpec{Segments: []string{"x"}, MaxConcurrency: 1}, errs.SegmentNotFound},
		{model.DrainSpec{Segments: []string{"a"}, Targets: []string{"x"}, MaxConcurrency: 1}, errs.SegmentNotFound},
	} {
		_, err := b.Engine.Create(c.spec, b.now)
		require.True(t, errs.Is(err, c.code), "%.100v: %v", c.spec, err)
	}
	require.Equal(t, model.SegmentOK, b.pool.segments["a"])
	b.create(model.DrainSpec{Segments: []string{"a"}, MaxConcurrency: 1})
	_, err := b.Engine.Create(model.DrainSpec{Segments: []string{"b", "a"}, MaxConcurrency: 1}, b.now)
	require.True(t, errs.Is(err, errs.UnavailableInCurrentStatus), "another job has it")
	require.Equal(t, model.SegmentOK, b.pool.segments["b"], "all or none")
}

func TestJobsAreBounded(t *testing.T) {
	b := newBench(t, "a", "b", "c", "d")
	b.cfg.KeepJobs, b.cfg.MaxJobs = 2, 2
	b.create(model.DrainSpec{Segments: []string{"a"}, MaxConcurrency: 1})
	b.create(model.DrainSpec{Segments: []string{"b"}, MaxConcurrency: 1})
	_, err := b.Engine.Create(model.DrainSpec{Segments: []string{"c"}, MaxConcurrency: 1}, b.now)
	require.True(t, errs.Is(err, errs.UnavailableInCurrentStatus))
	require.Equal(t, model.SegmentOK, b.pool.segments["c"])
	b.settle(4)
	require.Zero(t, b.Running(), "empty segments are drained at once")
	first := b.ended[0]
	b.create(model.DrainSpec{Segments: []string{"c"}, MaxConcurrency: 1})
	b.settle(4)
	_, err = b.Query(first)
	require.True(t, errs.Is(err, errs.JobNotFound))
	require.Len(t, b.jobs, 2)
}

func TestTooMuchTroubleEndsTheJob(t *testing.T) {
	b := newBench(t, "a", "b")
	for i := range maxTroubled + 1 {
		b.pool.put(key(i), 1, "a")
	}
	b.pool.refuse = errs.New(errs.Internal, "move", "broken")
	id := b.create(model.DrainSpec{Segments: []string{"a"}, MaxConcurrency: 4})
	b.pool.page = 500
	b.settle(4)
	j := b.query(id)
	require.Equal(t, model.JobFailed, j.Status)
	require.Contains(t, j.Message, "1001 objects could not be moved")
	require.Equal(t, maxListed, strings.Count(j.Message, "broken"))
}

func TestRunDrivesJobsAndEndsThemWithTheMaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := newFake(t.Errorf, "a", "b", "c")
		pool.put("k", 1, "a")
		pool.put("stuck", 1, "c").blocked = "leased"
		e := New(DefaultConfig(), pool, quiet())
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); e.Run(ctx, time.Now) }()
		moved, err := e.Create(model.DrainSpec{Segments: []string{"a"}, MaxConcurrency: 1}, time.Now())
		require.NoError(t, err)
		stuck, err := e.Create(model.DrainSpec{Segments: []string{"c"}, MaxConcurrency: 1}, time.Now())
		require.NoError(t, err)
		synctest.Wait() // no time passes: Create woke it
		e.mu.Lock()
		require.Len(t, pool.order, 1)
		pool.finishAll("")
		e.mu.Unlock()
		e.Wake()
		e.Wake()
		time.Sleep(5 * tick)
		synctest.Wait()
		j, err := e.Query(moved)
		require.NoError(t, err)
		require.Equal(t, model.JobSucceeded, j.Status)
		stop()
		<-done
		j, err = e.Query(stuck)
		require.NoError(t, err)
		require.Equal(t, []any{model.JobFailed, "the master stopped"}, []any{j.Status, j.Message})
		require.Equal(t, model.SegmentOK, pool.segments["c"])
		_, err = e.Create(model.DrainSpec{Segments: []string{"c"}, MaxConcurrency: 1}, time.Now())
		require.True(t, errs.Is(err, errs.UnavailableInCurrentStatus))
	})
}
