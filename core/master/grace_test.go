package master_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestUnmountWithAGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, noLease, 8)
		r.put("stays")
		leaving := segment(1, 8*page)
		require.NoError(t, r.MountSegment(r.ctx, r.client, leaving))
		_, err := r.write(model.ReplicateConfig{ReplicaNum: 1, PreferredSegments: []string{leaving.Name}}, "goes", 1)
		require.NoError(t, err)
		require.NoError(t, r.UnmountSegment(r.ctx, r.client, leaving.ID, 20*time.Second))
		require.NoError(t, r.UnmountSegment(r.ctx, r.client, leaving.ID, time.Hour), "the earlier deadline holds")
		require.Equal(t, errs.InvalidParams, errs.CodeOf(r.UnmountSegment(r.ctx, r.client, leaving.ID, 25*time.Hour)))
		list, err := r.Segments(r.ctx)
		require.NoError(t, err)
		require.Equal(t, model.SegmentGracefullyUnmounting, list[1].Status)
		require.WithinDuration(t, time.Now().Add(20*time.Second), list[1].Deadline, time.Millisecond)
		for _, k := range names("k", 0, 7) {
			copies, err := r.write(model.ReplicateConfig{ReplicaNum: 2, PreferredSegments: []string{leaving.Name}}, k, 1)
			require.NoError(t, err)
			require.Len(t, copies, 1)
			require.Equal(t, "node-0:1", copies[0].Segment)
		}
		_, err = r.CopyStart(r.ctx, model.Caller{Client: r.client}, model.CopyObject, "stays", "", []string{leaving.Name})
		require.Equal(t, errs.UnavailableInCurrentStatus, errs.CodeOf(err))
		r.keepAlive(19 * time.Second)
		require.Equal(t, one(errs.OK), r.get("goes"))
		r.keepAlive(3 * time.Second)
		require.Equal(t, one(errs.ObjectNotFound), r.get("goes"))
		require.Equal(t, one(errs.OK), r.get("stays"))
		list, err = r.Segments(r.ctx)
		require.NoError(t, err)
		require.Len(t, list, 1)
	})
}

// A client that looks everything up all the time keeps no other client from writing. Objects that
// are really read stay as long as there are others to evict.
func TestLookupsDoNotStarveWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil, 8)
		all := names("old", 0, 8)
		r.put(all...)
		r.get("old00003")
		for _, k := range names("new", 0, 40) {
			r.exist(append(all, r.here()...)...)
			require.Equal(t, one(errs.OK), r.begin(k))
			require.Equal(t, one(errs.OK), r.end(k))
			require.Equal(t, []bool{true}, r.exist("old00003"), "it is leased")
			r.keepAlive(100 * time.Millisecond)
			r.get("old00003")
		}
	})
}

// A copy whose target went away has not succeeded, whether or not the table was swept.
func TestACopyThatLostItsTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, swept := range []bool{false, true} {
			for _, kind := range []model.CopyKind{model.CopyObject, model.MoveObject} {
				r := start(t, noLease, 4, 4)
				_, err := r.write(model.ReplicateConfig{ReplicaNum: 1, PreferredSegments: []string{"node-0:1"}}, "k", 1)
				require.NoError(t, err)
				caller := model.Caller{Client: r.client}
				_, err = r.CopyStart(r.ctx, caller, kind, "k", "node-0:1", []string{"node-1:1"})
				require.NoError(t, err)
				require.NoError(t, r.UnmountSegment(r.ctx, r.client, r.segs[1].ID, 0))
				if swept {
					synctest.Wait()
				}
				require.Equal(t, errs.ReplicaIsGone, errs.CodeOf(r.CopyEnd(r.ctx, caller, kind, "k")))
				require.Equal(t, one(errs.OK), r.get("k"), "the source is still there")
				require.Equal(t, one(errs.OK), r.remove(true, "k"), "and no copy in progress")
			}
		}
	})
}
