package master_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// TestASilentNodeIsNotForgotten: its objects are unreadable, and back when it is.
func TestASilentNodeIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newKeeper(t, 1, 40), newKeeper(t, 2, 40)
		short := func(c *master.Config) { c.ClientTTL, c.SegmentRetention = 10*time.Second, time.Minute }
		r := startAttached(t, short, a, b)
		var lost []string
		for i := 0; len(lost) < 2; i++ { // An object goes to either node.
			k := fmt.Sprint(i)
			r.put(k)
			flushed()
			if r.PeekReplicas([]string{k})[0].Value.Replicas[0].SegmentID == a.segs[0].ID {
				lost = append(lost, k)
			}
		}
		a.leave()
		settled(20 * time.Second)
		require.NotContains(t, r.exist(lost...), true)
		got, err := r.PutStart(r.ctx, model.Caller{Client: r.client}, items([]string{"new"}, page), model.DefaultReplicateConfig(), nil)
		require.NoError(t, err)
		require.Equal(t, b.segs[0].ID, got[0].Value[0].SegmentID, "no object goes to a silent node")
		require.Equal(t, one(errs.ObjectNotFound), r.remove(true, lost[0]))
		a.join(r)
		require.Equal(t, []bool{false}, r.exist(lost[0]), "it stays removed")
		require.NotContains(t, r.exist(lost[1:]...), false)
		flushed()
		r.kill(t, a, b)
		r = startAttached(t, short, a, b)
		require.Equal(t, []bool{false}, r.exist(lost[0]))
		a.leave()
		settled(2 * time.Minute)
		segs, err := r.Segments(r.ctx)
		require.NoError(t, err)
		require.Len(t, segs, 1)
		require.Equal(t, b.segs[0].ID, segs[0].ID)
	})
}

// TestADrainedNodeFallsSilent: a job that cannot go on gives back all segments that it took, those of a silent node as well.
func TestADrainedNodeFallsSilent(t *testing.T) {
	for name, silent := range map[string]bool{"one of two": false, "the only one": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b, c := newKeeper(t, 1, 4), newKeeper(t, 2, 4), newKeeper(t, 3, 4)
				b.segs[0].Name = a.segs[0].Name
				nodes := []*keeper{a, c}
				if !silent {
					nodes = append(nodes, b)
				}
				r := startAttached(t, func(c *master.Config) { c.ClientTTL = 10 * time.Second }, nodes...)
				r.put(names("k", 0, 4*len(nodes))...) // No node carries out the moves.
				flushed()
				id, err := r.CreateDrainJob(r.ctx, model.DrainSpec{Segments: []string{a.segs[0].Name}, MaxConcurrency: 1})
				require.NoError(t, err)
				a.leave()
				settled(time.Minute)
				job, err := r.DrainJob(r.ctx, id)
				require.NoError(t, err)
				require.Equal(t, model.JobFailed, job.Status)
				a.join(r)
				segs, err := r.Segments(r.ctx)
				require.NoError(t, err)
				require.Len(t, segs, len(nodes))
				for _, s := range segs {
					require.Equal(t, model.SegmentOK, s.Status, "of %s", s.Name)
				}
			})
		})
	}
}
