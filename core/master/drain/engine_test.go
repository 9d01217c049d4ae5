package drain

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// bench is an engine over a fake pool, at a time of its own.
type bench struct {
	*testing.T
	*Engine
	pool *fake
	now  time.Time
}

func newBench(t *testing.T, segments ...string) *bench {
	pool := newFake(t.Errorf, segments...)
	return &bench{T: t, Engine: New(DefaultConfig(), pool, quiet()), pool: pool, now: start}
}

func (b *bench) create(spec model.DrainSpec) model.JobID {
	b.Helper()
	id, err := b.Engine.Create(spec, b.now)
	require.NoError(b, err)
	return id
}

func (b *bench) query(id model.JobID) model.DrainJob {
	b.Helper()
	j, err := b.Engine.Query(id)
	require.NoError(b, err)
	return j
}

// settle steps until the engine has nothing to do at once, then lets the tick pass.
func (b *bench) settle(ticks int) {
	for range ticks {
		b.now = b.now.Add(tick)
		for b.Step(b.now) {
		}
	}
}

func TestAJobFromCreateToItsEnd(t *testing.T) {
	b := newBench(t, "a", "b", "c")
	for i := range 5 {
		b.pool.put(key(i), 10, "a")
	}
	b.pool.put("both", 7, "a", "b")
	id := b.create(model.DrainSpec{Segments: []string{"a"}, Targets: []string{"c"}, MaxConcurrency: 2})
	require.Equal(t, model.SegmentDraining, b.pool.segments["a"])
	require.Equal(t, model.JobCreated, b.query(id).Status)
	b.settle(1)
	j := b.query(id)
	require.Equal(t, model.JobRunning, j.Status)
	require.EqualValues(t, 2, j.Active)
	require.Contains(t, j.Message, "6 objects of 57 bytes")
	b.settle(3)
	require.Len(t, b.pool.order, 2, "no more than asked for")
	for range 3 {
		b.pool.finishAll("")
		b.settle(1)
	}
	require.Equal(t, 6, b.pool.on("c"))
	b.settle(3)
	j = b.query(id)
	require.Equal(t, model.JobSucceeded, j.Status)
	require.Equal(t, []uint64{6, 0, 0, 0, 57}, []uint64{j.Succeeded, j.Failed, j.Blocked, j.Active, j.MigratedBytes})
	require.Equal(t, model.SegmentDrained, b.pool.segments["a"])
	require.Zero(t, b.Running())
	require.True(t, errs.Is(b.Cancel(id, b.now), errs.UnavailableInCurrentStatus))
}

func TestWhatIsBlockedIsMovedLater(t *testing.T) {
	b := newBench(t, "a", "b")
	leased := b.pool.put("leased", 1, "a")
	leased.blocked = "leased"
	b.pool.put("free", 1, "a")
	id := b.create(model.DrainSpec{Segments: []string{"a"}, MaxConcurrency: 4})
	b.settle(2)
	b.pool.finishAll("")
	b.settle(4)
	j := b.query(id)
	require.EqualValues(t, 1, j.Blocked)
	require.Equal(t, `1 objects stand in the way: "leased" on a (leased)`, j.Message)
	leased.blocked = ""
	b.settle(40)
	b.pool.finishAll("")
	b.settle(4)
	require.Equal(t, model.JobSucceeded, b.query(id).Status)
}

func TestAnObjectThatNoClientCanMoveFailsTheJob(t *testing.T) {
	b := newBench(t, "a", "b")
	b.pool.put("bad", 1, "a")
	b.pool.put("good", 1, "a")
	id := b.create(model.DrainSpec{Segments: []string{"a"}, MaxConcurrency: 1})
	attempts := 0
	for range 40 {
		b.settle(1)
		for _, task := range b.pool.order {
			if b.pool.tasks[task].Spec.Key == "bad" {
				attempts++
				b.pool.finish(task, "TRANSFER_FAIL: port down")
			} else {
				b.pool.finish(task, "")
			}
		}
	}
	require.Equal(t, 4, attempts, "once and three retries")
	j := b.query(id)
	require.Equal(t, model.JobFailed, j.Status)
	require.Equal(t, `1 objects could not be moved: "bad" on a (TRANSFER_FAIL: port down)`, j.Message)
	require.Equal(t, []uint64{1, 1}, []uint64{j.Succeeded, j.Failed})
	require.Equal(t, model.SegmentOK, b.pool.segments["a"])
}

func TestAFailedObjectThatGoesAwayByItselfIsForgiven(t *testing.T) {
	b := newBench(t, "a", "b")
	b.pool.put("bad", 1, "a")
	b.pool.put("slow", 1, "a").blocked = "leased"
	id := b.create(model.DrainSpec{Segments: []string{"a"}, MaxConcurrency: 1})
	for range 60 {
		b.settle(1)
		b.pool.finishAll("no")
	}
	require.EqualValues(t, 1, b.query(id).Failed)
	delete(b.pool.objects, "bad")
	b.settle(60)
	require.Empty(t, b.jobs[id].troubled)
	clear(b.pool.objects)
	b.settle(60)
	require.Equal(t, model.JobSucceeded, b.query(id).Status)
}

func TestAJobThatGetsNowhereSaysWhy(t *testing.T) {
	b := newBench(t, "a", "b")
	for i := range 12 {
		b.pool.put(key(i)+strings.Repeat("x", 100), 1, "a").blocked = "being written"
	}
	id := b.create(model.DrainSpec{Segments: []string{"a"}, MaxConcurrency: 4})
	b.settle(int(DefaultConfig().NoProgress/tick) - 1)
	require.Equal(t, model.JobRunning, b.query(id).Status)
	require.Less(t, b.pool.calls, 1000, "it does not look all the time")
	b.settle(2)
	j := b.query(id)
	require.Equal(t, model.JobFailed, j.Status)
	require.Contains(t, j.Message, "nothing has got better for 10m0s; 12 objects stand in the way")
	require.Equal(t, 10, strings.Count(j.Message, "being written"))
	require.Contains(t, j.Message, "2 more")
	require.Less(t, len(j.Message), 2000)
	require.Equal(t, model.SegmentOK, b.pool.segments["a"])
}

func TestATaskThatNeverEndsDoesNotHoldTheJobForEver(t *testing.T) {
	b := newBench(t, "a", "b")
	b.pool.put("k", 1, "a")
	id := b.create(model.DrainSpec{Segments: []string{"a"}, MaxConcurrency: 4})
	b.settle(int(DefaultConfig().NoProgress/tick) + 1)
	j := b.query(id)
	require.Equal(t, model.JobFailed, j.Status)
	require.Contains(t, j.Message, `1 objects are being moved: "k" on a`)
	require.Contains(t, j.Message, "1 moves are in progress and end by themselves")
}

func TestWithoutSpaceAJobWaitsAndThenSaysSo(t *testing.T) {
	b := newBench(t, "a", "b")
	b.pool.put("k", 1, "a")
	b.pool.full["b"] = true
	id := b.create(model.DrainSpec{Segments: []string{"a"}, MaxConcurrency: 4})
	b.settle(5)
	require.Contains(t, b.query(id).Message, `"k" on a (no segment can take it)`)
	b.pool.full["b"] = false
	b.pool.refuse = errs.New(errs.TaskPendingLimitExceeded, "task", "full")
	b.settle(50)
	require.Zero(t, b.query(id).Failed, "a full queue is not a failure")
	b.pool.refuse = errs.New(errs.ObjectHasLease, "task", "leased")
	b.settle(50)
	require.EqualValues(t, 1, b.query(id).Blocked)
	b.pool.refuse = nil
	b.settle(50)
	b.pool.finishAll("")
	b.settle(5)
	require.Equal(t, model.JobSucceeded, b.query(id).Status)
}

func TestOnlyTheQueueInTheWay(t *testing.T) {
	b := newBench(t, "a", "b")
	b.pool.put("k", 1, "a")
	b.pool.refuse = errs.New(errs.TaskPendingLimitExceeded, "task", "full")
	id := b.create(model.DrainSpec{Segments: []string{"a"}, MaxConcurrency: 4})
	b.settle(int(DefaultConfig().NoProgress/tick) + 1)
	require.Contains(t, b.query(id).Message, "too many tasks wait already")
}

func TestASegmentThatGoesAwayFailsTheJob(t *testing.T) {
	b := newBench(t, "a", "b", "c")
	b.pool.put("k", 1, "a").blocked = "leased"
	id := b.create(model.DrainSpec{Segments: []string{"a", "b"}, MaxConcurrency: 4})
	b.settle(2)
	b.pool.unmount("a")
	b.settle(1)
	j := b.query(id)
	require.Equal(t, model.JobFailed, j.Status)
	require.Contains(t, j.Message, `segment "a" can be drained no more`)
	require.Contains(t, j.Message, "mounted no more")
	require.Equal(t, model.SegmentOK, b.pool.segments["b"])
}

func TestASegmentThatCameBackIsNotTheOldJobs(t *testing.T) {
	b := newBench(t, "a", "b")
	b.pool.put("k", 1, "a").blocked = "leased"
	before := b.create(model.DrainSpec{Segments: []string{"a"}, MaxConcurrency: 1})
	b.settle(1)
	b.pool.unmount("a")
	b.pool.segments["a"] = model.SegmentOK
	after := b.create(model.DrainSpec{Segments: []string{"a"}, MaxConcurrency: 1})
	require.Equal(t, model.JobFailed, b.query(before).Status)
	b.settle(4)
	require.Equal(t, model.JobSucceeded, b.query(after).Status)
}

func TestTwoCopiesOfOneObjectAreMovedOneAfterTheOther(t *testing.T) {
	b := newBench(t, "a", "b", "c", "d")
	b.pool.put("k", 1, "a", "b")
	id := b.create(model.DrainSpec{Segments: []string{"a", "b"}, MaxConcurrency: 4})
	b.settle(1)
	require.Equal(t, `1 objects stand in the way: "k" on b (another copy of it is being moved)`, b.query(id).Message)
	for range 20 {
		b.settle(1)
		require.LessOrEqual(t, len(b.pool.order), 1)
		b.pool.finishAll("")
	}
	j := b.query(id)
	require.Equal(t, model.JobSucceeded, j.Status)
	require.EqualValues(t, 2, j.Succeeded)
}

func TestWhatComesBehindTheFirstWalkIsMovedToo(t *testing.T) {
	b := newBench(t, "a", "b")
	id := b.create(model.DrainSpec{Segments: []string{"a"}, MaxConcurrency: 1})
	b.settle(1)
	require.Equal(t, model.JobRunning, b.query(id).Status)
	b.pool.put("allocated before", 1, "a")
	b.settle(2)
	b.pool.finishAll("")
	b.settle(6)
	require.Equal(t, model.JobSucceeded, b.query(id).Status)
	require.Equal(t, 1, b.pool.on("b"))
}

func TestObjectsThatOthersRemoveAreProgressToo(t *testing.T) {
	b := newBench(t, "a", "b")
	for i := range 4 {
		b.pool.put(key(i), 1, "a").blocked = "leased"
	}
	id := b.create(model.DrainSpec{Segments: []string{"a"}, MaxConcurrency: 1})
	for i := range 4 {
		b.settle(int(DefaultConfig().NoProgress/tick) * 2 / 3)
		require.Equal(t, model.JobRunning, b.query(id).Status)
		delete(b.pool.objects, key(i))
	}
	b.settle(60)
	require.Equal(t, model.JobSucceeded, b.query(id).Status)
}

func TestForgottenTasksAreFoundOutByLooking(t *testing.T) {
	b := newBench(t, "a", "b")
	b.pool.forget = true
	for i := range 5 {
		b.pool.put(key(i), 1, "a")
	}
	id := b.create(model.DrainSpec{Segments: []string{"a"}, MaxConcurrency: 1})
	for range 30 {
		b.settle(1)
		b.pool.finishAll("")
	}
	require.Equal(t, model.JobSucceeded, b.query(id).Status)
}
