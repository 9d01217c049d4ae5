package master_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Every segment that has a piece of a copy can be the one to move it away from.
func TestMovingACopyInPieces(t *testing.T) {
	const mb = 1 << 20 / page
	r := start(t, func(c *master.Config) { c.StripeSize = 1 << 20 }, 3*mb, 3*mb)
	caller := model.Caller{Client: r.client}
	got, err := r.PutStart(r.ctx, caller, items([]string{"k"}, 2<<20), model.DefaultReplicateConfig(), nil)
	require.NoError(t, err)
	require.NoError(t, got[0].Err)
	require.Len(t, got[0].Value[0].More, 1)
	require.Equal(t, one(errs.OK), r.end("k"))
	r.segs = append(r.segs, segment(2, 3<<20))
	require.NoError(t, r.MountSegment(r.ctx, r.client, r.segs[2]))
	for _, from := range r.segs[:2] {
		id, err := r.CreateTask(r.ctx, caller, model.TaskSpec{Kind: model.MoveObject, Key: "k", Source: from.Name, Targets: []string{r.segs[2].Name}})
		require.NoError(t, err, from.Name)
		task, err := r.QueryTask(r.ctx, id)
		require.NoError(t, err)
		require.Equal(t, from.Name, task.Spec.Source)
	}
	plan, err := r.CopyStart(r.ctx, caller, model.MoveObject, "k", r.segs[0].Name, []string{r.segs[1].Name})
	require.NoError(t, err)
	require.Len(t, plan.Targets, 1, "whole, where a piece of it lies already")
	require.Equal(t, r.segs[1].Name, plan.Targets[0].Segment)
	require.Equal(t, uint64(2<<20), plan.Targets[0].Size)
	require.NoError(t, r.CopyRevoke(r.ctx, caller, model.MoveObject, "k"))
	plan, err = r.CopyStart(r.ctx, caller, model.CopyObject, "k", r.segs[0].Name, []string{r.segs[1].Name})
	require.NoError(t, err)
	require.Empty(t, plan.Targets, "two copies share no segment")
	require.NoError(t, r.CopyRevoke(r.ctx, caller, model.CopyObject, "k"))
	_, err = r.CopyStart(r.ctx, caller, model.MoveObject, "k", r.segs[1].Name, []string{r.segs[2].Name})
	require.NoError(t, err)
	require.NoError(t, r.CopyEnd(r.ctx, caller, model.MoveObject, "k"))
	got2, err := r.GetReplicas(r.ctx, caller, []string{"k"}, nil)
	require.NoError(t, err)
	require.Len(t, got2[0].Value.Replicas, 1)
	require.Equal(t, r.segs[2].Name, got2[0].Value.Replicas[0].Segment)
	require.Empty(t, got2[0].Value.Replicas[0].More)
}
