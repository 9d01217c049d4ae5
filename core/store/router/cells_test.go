package router_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/cells"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// TestThePoolHasNoEpochBeforeAllCellsHave: a process says of the lowest epoch that its earlier puts are over. A cell that has
// not answered yet may have a lower one, and one that has fallen silent keeps its own.
func TestThePoolHasNoEpochBeforeAllCellsHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 3
		r, gates := gated(t, n)
		var epochs []uint64
		for _, g := range gates {
			one, err := g.Master.Ping(t.Context(), clientID, model.PingReport{})
			require.NoError(t, err)
			require.NotZero(t, one.Epoch)
			epochs = append(epochs, one.Epoch)
		}
		last := slices.Index(epochs, slices.Min(epochs))
		epoch := func() uint64 {
			reply, err := r.Ping(t.Context(), clientID, model.PingReport{})
			require.NoError(t, err)
			require.Positive(t, reply.Newest())
			return reply.Epoch
		}
		gates[last].set(errCut, nil)
		require.Zero(t, epoch())
		time.Sleep(time.Minute)
		require.Zero(t, epoch(), "the cell is down")
		gates[last].set(nil, nil)
		require.Eventually(t, func() bool { return epoch() == epochs[last] }, time.Minute, time.Second)
		gates[last].set(errCut, nil)
		for range 60 {
			require.Equal(t, epochs[last], epoch())
			time.Sleep(time.Second)
		}
	})
}

// TestNodesAttachAtTheCells: the Router has no ledgers, so that a node that does not know the cells mounts without.
func TestNodesAttachAtTheCells(t *testing.T) {
	synctest.Test(t, nodesAttachAtTheCells)
}

func nodesAttachAtTheCells(t *testing.T) {
	r, _ := gated(t, 3)
	_, err := r.Attach(t.Context(), nodeID, nil)
	require.Equal(t, errs.NotSupported, errs.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "etcd://")
	var segs []model.Segment
	for i := range 12 {
		segs = append(segs, segmentOf(100+i))
	}
	other := model.ClientID{Hi: 9}
	require.NoError(t, r.MountSegment(t.Context(), other, segs[0]))
	time.Sleep(2 * time.Minute) // Until no reader of a master before can be there.
	require.NoError(t, r.RemountSegments(t.Context(), other, segs))
	list, err := r.Segments(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 3+len(segs))
	hosts, err := r.QueryHosts(t.Context(), []model.ClientID{other, nodeID})
	require.NoError(t, err)
	require.Len(t, hosts, 2)
	for _, s := range segs {
		require.NoError(t, r.UnmountSegment(t.Context(), other, s.ID, 0))
	}
	list, err = r.Segments(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 3)
}

// TestTasksOfSeveralCells: a task is found wherever it is, and a node gets no more tasks than it asks for.
func TestTasksOfSeveralCells(t *testing.T) {
	r, gates := gated(t, 3)
	ctx, as := t.Context(), model.Caller{Client: clientID}
	for i, g := range gates {
		require.NoError(t, g.MountSegment(ctx, nodeID, segmentOf(100+i)))
	}
	ids := map[model.TaskID]bool{}
	for _, k := range keysOf(3, 2) {
		got, err := r.PutStart(ctx, as, []model.PutItem{{Key: k, Size: 10}}, model.DefaultReplicateConfig(), nil)
		require.NoError(t, err)
		require.NoError(t, got[0].Err)
		ended, err := r.PutEnd(ctx, as, []model.EndItem{{Key: k, Put: got[0].Value[0].ID}}, nil)
		require.NoError(t, err)
		require.NoError(t, errors.Join(ended...))
		at := segmentOf(cells.Of(k, 3)).Name
		to := segmentOf(100 + cells.Of(k, 3)).Name
		for _, p := range got[0].Value[0].Parts {
			if p.Segment == to {
				at, to = to, at
			}
		}
		id, err := r.CreateTask(ctx, as, model.TaskSpec{Kind: model.CopyObject, Key: k, Source: at, Targets: []string{to}})
		require.NoError(t, err)
		ids[id] = true
	}
	fetched := 0
	for fetched < len(ids) {
		got, err := r.FetchTasks(ctx, model.Caller{Client: nodeID}, 4)
		require.NoError(t, err)
		require.NotEmpty(t, got)
		require.LessOrEqual(t, len(got), 4)
		for _, a := range got {
			require.True(t, ids[a.ID])
			require.NoError(t, r.CompleteTask(ctx, model.Caller{Client: nodeID}, a.ID, model.TaskFailed, "no"))
			task, err := r.QueryTask(ctx, a.ID)
			require.NoError(t, err)
			require.Equal(t, model.TaskFailed, task.Status)
		}
		fetched += len(got)
	}
	_, err := r.QueryTask(ctx, model.TaskID{Hi: 7})
	require.Equal(t, errs.TaskNotFound, errs.CodeOf(err))
}
