package drain

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// machine lets everything happen to a pool while jobs run over it.
type machine struct {
	pool   *fake
	engine *Engine
	now    time.Time
	jobs   map[model.JobID]model.DrainSpec
}

var allSegments = []string{"a", "b", "c", "d"}

func (m *machine) anyObject(t *rapid.T) *object {
	if len(m.pool.objects) == 0 {
		t.Skip("no object")
	}
	return m.pool.objects[rapid.SampledFrom(slices.Sorted(maps.Keys(m.pool.objects))).Draw(t, "object")]
}

func (m *machine) anySegment(t *rapid.T) string {
	return rapid.SampledFrom(allSegments).Draw(t, "segment")
}

// put adds an object, only where the master would: not to a segment that is drained.
func (m *machine) put(t *rapid.T) {
	k := key(rapid.IntRange(0, 9).Draw(t, "key"))
	var copies []string
	for _, s := range allSegments {
		if m.pool.segments[s] == model.SegmentOK && rapid.Bool().Draw(t, "on "+s) {
			copies = append(copies, s)
		}
	}
	if m.pool.objects[k] != nil || len(copies) == 0 {
		t.Skip("not to be put")
	}
	m.pool.put(k, rapid.Uint64Range(1, 100).Draw(t, "size"), copies...)
}

func (m *machine) create(t *rapid.T) {
	spec := model.DrainSpec{
		Segments:       rapid.SliceOfNDistinct(rapid.SampledFrom(allSegments), 1, 2, rapid.ID).Draw(t, "segments"),
		MaxConcurrency: rapid.IntRange(1, 3).Draw(t, "concurrency"),
	}
	if rapid.Bool().Draw(t, "targets") {
		spec.Targets = slices.DeleteFunc(slices.Clone(allSegments), func(s string) bool { return slices.Contains(spec.Segments, s) })
	}
	before := maps.Clone(m.pool.segments)
	id, err := m.engine.Create(spec, m.now)
	if err != nil {
		for s, status := range m.pool.segments {
			// It may have found that another job's segment is gone, which ends that job.
			released := before[s] == model.SegmentDraining && status == model.SegmentOK
			require.True(t, status == before[s] || released, "a refused job made segment %s %s", s, status)
		}
		return
	}
	m.jobs[id] = spec
}

func (m *machine) step(t *rapid.T) {
	m.now = m.now.Add(time.Duration(rapid.IntRange(0, 30_000).Draw(t, "ms")) * time.Millisecond)
	for n := 0; m.engine.Step(m.now); n++ {
		require.Less(t, n, 1000, "a step does not end")
	}
}

func (m *machine) finish(t *rapid.T) {
	if len(m.pool.order) == 0 {
		t.Skip("no task")
	}
	m.pool.finish(rapid.SampledFrom(m.pool.order).Draw(t, "task"), rapid.SampledFrom([]string{"", "", "", "failed"}).Draw(t, "how"))
}

// check compares what jobs say with what is.
func (m *machine) check(t *rapid.T) {
	owner := map[string]model.JobID{}
	active, unfinished := uint64(0), 0
	for id, spec := range m.jobs {
		j, err := m.engine.Query(id)
		require.NoError(t, err)
		require.Equal(t, spec, j.Spec)
		require.LessOrEqual(t, j.Active, uint64(spec.MaxConcurrency))
		active += j.Active
		if j.Status.Final() {
			require.Zero(t, j.Active)
			require.True(t, j.Status != model.JobFailed || j.Message != "", "a failure without a reason")
			continue
		}
		unfinished++
		for _, s := range spec.Segments {
			require.NotContains(t, owner, s, "two jobs drain one segment")
			owner[s] = id
		}
	}
	require.Equal(t, unfinished, m.engine.Running())
	for s, status := range m.pool.segments {
		if status == model.SegmentDraining {
			require.Contains(t, owner, s, "no job drains a segment that is draining")
		}
	}
}

// heal takes every obstacle away and lets time pass: all jobs have to end.
func (m *machine) heal(t *rapid.T) {
	for _, o := range m.pool.objects {
		o.blocked = ""
	}
	m.pool.refuse = nil
	clear(m.pool.full)
	for range 300 {
		m.now = m.now.Add(tick)
		for m.engine.Step(m.now) {
		}
		m.pool.finishAll("")
	}
	for id := range m.jobs {
		j, err := m.engine.Query(id)
		require.NoError(t, err)
		if !j.Status.Final() {
			// Without a segment to move to, it waits out its time.
			require.Positive(t, j.Blocked, "job %s for no reason: %+v", id, j)
			m.now = m.now.Add(DefaultConfig().NoProgress)
			m.engine.Step(m.now)
			j, err = m.engine.Query(id)
			require.NoError(t, err)
			require.Equal(t, model.JobFailed, j.Status)
		}
	}
	m.check(t)
}

func TestEverythingMayHappenToAJob(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pool := newFake(t.Fatalf, allSegments...)
		pool.page = rapid.IntRange(1, 3).Draw(t, "page")
		for i := range 10 {
			pool.names = append(pool.names, key(i))
		}
		m := &machine{pool: pool, engine: New(DefaultConfig(), pool, quiet()), now: start, jobs: map[model.JobID]model.DrainSpec{}}
		t.Repeat(map[string]func(*rapid.T){
			"put": m.put, "create": m.create, "finish": m.finish, "finish more": m.finish, "step": m.step, "step more": m.step,
			"block": func(t *rapid.T) {
				m.anyObject(t).blocked = rapid.SampledFrom([]string{"", "leased", "being written"}).Draw(t, "why")
			},
			"remove": func(t *rapid.T) {
				o := m.anyObject(t)
				maps.DeleteFunc(pool.objects, func(_ string, x *object) bool { return x == o })
			},
			"unmount": func(t *rapid.T) { pool.unmount(m.anySegment(t)) },
			"mount": func(t *rapid.T) {
				if s := m.anySegment(t); pool.segments[s] == 0 {
					pool.segments[s] = model.SegmentOK
				}
			},
			"fill":   func(t *rapid.T) { pool.full[m.anySegment(t)] = rapid.Bool().Draw(t, "full") },
			"forget": func(t *rapid.T) { pool.forget = rapid.Bool().Draw(t, "forget") },
			"refuse": func(t *rapid.T) {
				code := rapid.SampledFrom([]errs.Code{errs.OK, errs.OK, errs.TaskPendingLimitExceeded, errs.ObjectHasLease, errs.Internal}).Draw(t, "code")
				if pool.refuse = nil; code != errs.OK {
					pool.refuse = errs.New(code, "move", "refused")
				}
			},
			"cancel": func(t *rapid.T) {
				if len(m.jobs) == 0 {
					t.Skip("no job")
				}
				ids := slices.SortedFunc(maps.Keys(m.jobs), func(a, b model.JobID) int {
					ja, _ := m.engine.Query(a)
					jb, _ := m.engine.Query(b)
					return ja.Created.Compare(jb.Created)
				})
				id := ids[rapid.IntRange(0, len(ids)-1).Draw(t, "job")]
				before, err := m.engine.Query(id)
				require.NoError(t, err)
				err = m.engine.Cancel(id, m.now)
				after, _ := m.engine.Query(id)
				if err == nil {
					require.Equal(t, model.JobCanceled, after.Status)
				} else {
					require.True(t, errs.Is(err, errs.UnavailableInCurrentStatus))
					require.Equal(t, before.Status, after.Status)
					require.True(t, before.Status.Final() || after.Active > 0, fmt.Sprint(err))
				}
			},
			"": m.check,
		})
		m.heal(t)
	})
}
