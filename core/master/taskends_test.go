package master_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// work carries out what the master asks for, as a node does, without moving bytes.
func (r *rig) work(client model.ClientID, fail bool) (done int) {
	r.t.Helper()
	caller := model.Caller{Client: client}
	list, err := r.FetchTasks(r.ctx, caller, 100)
	require.NoError(r.t, err)
	for _, a := range list {
		caller.Tenant = a.Spec.Tenant
		plan, err := r.CopyStart(r.ctx, caller, a.Spec.Kind, a.Spec.Key, a.Spec.Source, a.Spec.Targets)
		require.NoError(r.t, err)
		require.Equal(r.t, a.Spec.Source, plan.Source.Segment)
		if fail {
			require.NoError(r.t, r.CopyRevoke(r.ctx, caller, a.Spec.Kind, a.Spec.Key))
			require.NoError(r.t, r.CompleteTask(r.ctx, caller, a.ID, model.TaskFailed, "the disk is on fire"))
			continue
		}
		require.NoError(r.t, r.CopyEnd(r.ctx, caller, a.Spec.Kind, a.Spec.Key))
		require.NoError(r.t, r.CompleteTask(r.ctx, caller, a.ID, model.TaskSuccess, ""))
		done++
	}
	return done
}

func TestCopyTasks(t *testing.T) {
	r := start(t, noLease, 4, 4)
	far := model.UUID{Hi: 6}
	require.NoError(t, r.MountSegment(r.ctx, far, segment(2, 4*page)))
	_, err := r.write(model.ReplicateConfig{ReplicaNum: 1, PreferredSegments: []string{"node-2:1"}}, "k", 1)
	require.NoError(t, err)
	id, err := r.CreateTask(r.ctx, model.Caller{}, model.TaskSpec{Kind: model.CopyObject, Key: "k", Targets: []string{"node-0:1", "node-1:1"}})
	require.NoError(t, err)
	require.Zero(t, r.work(r.client, false), "it is for the owner of the source")
	require.Equal(t, 1, r.work(far, false))
	task, err := r.QueryTask(r.ctx, id)
	require.NoError(t, err)
	require.Equal(t, model.TaskSuccess, task.Status)
	require.Len(t, r.why("k").Replicas, 3)
	require.Len(t, r.alloc.Live(), 3)

	id, err = r.CreateTask(r.ctx, model.Caller{}, model.TaskSpec{Kind: model.MoveObject, Key: "k", Source: "node-2:1", Targets: []string{"node-0:1"}})
	require.NoError(t, err)
	r.work(far, true)
	task, err = r.QueryTask(r.ctx, id)
	require.NoError(t, err)
	require.Equal(t, model.TaskFailed, task.Status)
	require.Contains(t, task.Message, "on fire")
	require.Len(t, r.why("k").Replicas, 3, "nothing changed")
	for name, c := range map[string]struct {
		spec model.TaskSpec
		want errs.Code
	}{
		"unknown target":     {model.TaskSpec{Key: "k", Targets: []string{"nowhere"}}, errs.InvalidParams},
		"unknown source":     {model.TaskSpec{Kind: model.MoveObject, Key: "k", Source: "nowhere", Targets: []string{"node-0:1"}}, errs.InvalidParams},
		"source is target":   {model.TaskSpec{Kind: model.MoveObject, Key: "k", Source: "node-0:1", Targets: []string{"node-0:1"}}, errs.InvalidParams},
		"no target":          {model.TaskSpec{Key: "k"}, errs.InvalidParams},
		"unknown key":        {model.TaskSpec{Key: "l", Targets: []string{"node-0:1"}}, errs.ObjectNotFound},
		"empty key":          {model.TaskSpec{Targets: []string{"node-0:1"}}, errs.ObjectNotFound},
		"a target twice":     {model.TaskSpec{Key: "k", Targets: []string{"node-0:1", "node-0:1"}}, errs.OK},
		"a copy on a target": {model.TaskSpec{Key: "k", Targets: []string{"node-0:1", "node-1:1", "node-2:1"}}, errs.OK},
	} {
		require.Equal(t, c.want, errs.CodeOf(second(r.CreateTask(r.ctx, model.Caller{}, c.spec))), name)
	}
}

// The source of a copy is no target of it while another segment has a copy.
func TestTheSourceOfACopyIsNoTarget(t *testing.T) {
	r := start(t, noLease, 4, 4, 4)
	_, err := r.write(model.ReplicateConfig{ReplicaNum: 2, PreferredSegments: []string{"node-0:1", "node-1:1"}}, "k", 1)
	require.NoError(t, err)
	create := func(targets ...string) model.Task {
		id, err := r.CreateTask(r.ctx, model.Caller{}, model.TaskSpec{Kind: model.CopyObject, Key: "k", Targets: targets})
		require.NoError(t, err)
		task, err := r.QueryTask(r.ctx, id)
		require.NoError(t, err)
		return task
	}
	for range 50 { // The source is picked at random.
		require.Equal(t, "node-1:1", create("node-0:1").Spec.Source)
		require.Equal(t, "node-0:1", create("node-1:1", "node-2:1").Spec.Source)
	}
	require.Equal(t, 100, r.work(r.client, false))
	require.Len(t, r.why("k").Replicas, 3, "one of them asked for a copy where there was none")
	all := create("node-2:1", "node-0:1", "node-1:1", "node-0:1")
	require.Len(t, all.Spec.Targets, 3)
	require.Equal(t, 1, r.work(r.client, false), "there is a copy on each target: nothing is written")
	require.Len(t, r.why("k").Replicas, 3)
	require.Len(t, r.alloc.Live(), 3)
}

// A drain job empties a segment through the nodes' own work, and the segment takes nothing
// new meanwhile and after.
// TestADrainGetsItsSpace: the watermark is that of the segments that take new objects. So a drain of half of a pool that is
// fuller than that gets the space that it needs.
func TestADrainGetsItsSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(c *master.Config) { noLease(c); c.EvictionHighWatermark = 0.9 }, 100, 100)
		r.put(names("k", 0, 174)...)
		id, err := r.CreateDrainJob(r.ctx, model.DrainSpec{Segments: []string{"node-0:1"}, MaxConcurrency: 4})
		require.NoError(t, err)
		var job model.DrainJob
		for range 300 {
			r.keepAlive(time.Second)
			caller := model.Caller{Client: r.client}
			list, err := r.FetchTasks(r.ctx, caller, 100)
			require.NoError(t, err)
			for _, a := range list {
				_, err := r.CopyStart(r.ctx, caller, a.Spec.Kind, a.Spec.Key, a.Spec.Source, a.Spec.Targets)
				if err == nil {
					err = r.CopyEnd(r.ctx, caller, a.Spec.Kind, a.Spec.Key)
				}
				if err != nil { // It was evicted meanwhile, for example.
					require.NoError(t, r.CompleteTask(r.ctx, caller, a.ID, model.TaskFailed, err.Error()))
					continue
				}
				require.NoError(t, r.CompleteTask(r.ctx, caller, a.ID, model.TaskSuccess, ""))
			}
			if job, err = r.DrainJob(r.ctx, id); err == nil && job.Status.Final() {
				break
			}
		}
		require.Equal(t, model.JobSucceeded, job.Status, job.Message)
		require.Greater(t, len(r.here()), 80)
	})
}

func TestDrainJobToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, noLease, 32)
		keys := names("k", 0, 20)
		r.put(keys...)
		other := segment(1, 32*page)
		require.NoError(t, r.MountSegment(r.ctx, r.client, other))
		id, err := r.CreateDrainJob(r.ctx, model.DrainSpec{Segments: []string{"node-0:1"}, MaxConcurrency: 4})
		require.NoError(t, err)
		moved := 0
		for range 60 {
			r.keepAlive(time.Second)
			tasks := r.work(r.client, false)
			require.LessOrEqual(t, tasks, 4)
			moved += tasks
			if job, err := r.DrainJob(r.ctx, id); err == nil && job.Status.Final() {
				break
			}
			copies, err := r.write(model.DefaultReplicateConfig(), "new", 1)
			require.NoError(t, err)
			require.Equal(t, "node-1:1", copies[0].Segment)
			r.remove(true, "new")
		}
		job, err := r.DrainJob(r.ctx, id)
		require.NoError(t, err)
		require.Equal(t, model.JobSucceeded, job.Status, job.Message)
		require.Equal(t, 20, moved)
		require.Equal(t, uint64(20), job.Succeeded)
		require.Equal(t, uint64(20*page), job.MigratedBytes)
		require.Equal(t, keys, r.here())
		for _, k := range keys {
			require.Equal(t, "node-1:1", r.why(k).Replicas[0].Segment)
		}
		list, err := r.Segments(r.ctx)
		require.NoError(t, err)
		require.Equal(t, model.SegmentDrained, list[0].Status)
		require.Zero(t, list[0].Used)
		require.Equal(t, errs.JobNotFound, errs.CodeOf(second(r.DrainJob(r.ctx, model.NewUUID()))))
	})
}
