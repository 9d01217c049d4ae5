package master_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestMountingSegments(t *testing.T) {
	r := start(t, noLease, 4)
	require.NoError(t, r.MountSegment(r.ctx, r.client, r.segs[0]), "mounting again")
	changed := r.segs[0]
	changed.Size *= 2
	good := segment(1, page)
	overlap := segment(1, page)
	overlap.Base = r.segs[0].Base + page
	for name, c := range map[string]struct {
		client model.ClientID
		seg    model.Segment
	}{
		"changed":        {r.client, changed},
		"other client":   {model.UUID{Hi: 5}, r.segs[0]},
		"overlap":        {r.client, overlap},
		"no base":        {r.client, model.Segment{ID: good.ID, Name: "n", Size: 1}},
		"no size":        {r.client, model.Segment{ID: good.ID, Name: "n", Base: 1}},
		"no name":        {r.client, model.Segment{ID: good.ID, Base: 1, Size: 1}},
		"no id":          {r.client, model.Segment{Name: "n", Base: 1, Size: 1}},
		"no client":      {model.ClientID{}, good},
		"beyond the end": {r.client, model.Segment{ID: good.ID, Name: "n", Base: 1 << 63, Size: 1<<63 + 1}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, errs.InvalidParams, errs.CodeOf(r.MountSegment(r.ctx, c.client, c.seg)))
		})
	}
	require.Equal(t, errs.InvalidParams, errs.CodeOf(r.RemountSegments(r.ctx, r.client, []model.Segment{good, changed})))
	list, err := r.Segments(r.ctx)
	require.NoError(t, err)
	require.Len(t, list, 1, "all of a remount or nothing")
	require.Equal(t, model.SegmentInfo{Segment: r.segs[0], Client: r.client, Status: model.SegmentOK, Weight: 1}, list[0])
	r.put("k")
	list, err = r.Segments(r.ctx)
	require.NoError(t, err)
	require.Equal(t, uint64(page), list[0].Used)
}

func TestUnmountingTakesReplicasAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil, 4)
		r.put("old")
		require.NoError(t, r.MountSegment(r.ctx, r.client, segment(1, 4*page)))
		require.Equal(t, errs.IllegalClient, errs.CodeOf(r.UnmountSegment(r.ctx, model.UUID{Hi: 5}, r.segs[0].ID, 0)))
		require.Equal(t, one(errs.OK), r.get("old"))
		require.NoError(t, r.UnmountSegment(r.ctx, r.client, r.segs[0].ID, 0))
		require.Equal(t, one(errs.ObjectNotFound), r.get("old"), "at once, before the sweep")
		require.Equal(t, []bool{false}, r.exist("old"))
		require.Equal(t, one(errs.OK), r.begin("old"), "nothing stands in the way")
		require.NoError(t, r.UnmountSegment(r.ctx, r.client, r.segs[0].ID, 0), "unknown is a success")
		synctest.Wait()
		require.Equal(t, 1.0, r.value("master_key_count"))
		require.Equal(t, float64(page), r.value("master_allocated_bytes"))
		require.NoError(t, r.MountSegment(r.ctx, r.client, r.segs[0]), "the same ID again")
	})
}

func TestSweepForgetsObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil, 64)
		r.put(names("k", 0, 30)...)
		r.begin("unfinished")
		require.NoError(t, r.UnmountSegment(r.ctx, r.client, r.segs[0].ID, 0))
		settled(20 * time.Millisecond)
		require.Zero(t, r.value("master_key_count"))
		require.Zero(t, r.value("mem_cache_nums_"))
		st, err := r.lru.Stats(r.ctx)
		require.NoError(t, err)
		require.Zero(t, st.Objects, "the policy has heard of it")
	})
}

func TestClientExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil)
		dead, alive := model.UUID{Hi: 2}, r.client
		require.NoError(t, r.MountSegment(r.ctx, dead, segment(0, page)))
		r.put("lost")
		require.NoError(t, r.MountSegment(r.ctx, alive, segment(1, 4*page)))
		require.NoError(t, r.RemountSegments(r.ctx, alive, nil))
		got, err := r.PutStart(r.ctx, model.Caller{Client: dead}, items([]string{"halfway"}, page), model.DefaultReplicateConfig(), nil)
		require.NoError(t, err)
		require.Equal(t, one(errs.OK), codes(got))
		r.keepAlive(12 * time.Second)

		require.Equal(t, one(errs.ObjectNotFound), r.get("lost"))
		reply, err := r.Ping(r.ctx, dead, model.PingReport{})
		require.NoError(t, err)
		require.Equal(t, model.ClientNeedRemount, reply.Status)
		require.Equal(t, 1.0, r.value("master_active_clients"))
		require.Equal(t, one(errs.OK), r.begin("halfway"), "the put of the dead client was discarded")
		require.Len(t, r.alloc.Live(), 2, "its memory is not used again yet")
		list, err := r.Segments(r.ctx)
		require.NoError(t, err)
		require.Len(t, list, 1)

		require.NoError(t, r.RemountSegments(r.ctx, dead, []model.Segment{segment(0, page)}))
		reply, err = r.Ping(r.ctx, dead, model.PingReport{})
		require.NoError(t, err)
		require.Equal(t, model.ClientOK, reply.Status)
		require.Equal(t, one(errs.ObjectNotFound), r.get("lost"), "what was dropped stays dropped")
		require.NoError(t, r.RemountSegments(r.ctx, model.UUID{Hi: 3}, nil), "a client without segments")
	})
}

func TestReplicas(t *testing.T) {
	r := start(t, nil, 8, 8, 8)
	place := func(key string, cfg model.ReplicateConfig) []string {
		got, err := r.PutStart(r.ctx, model.Caller{Client: r.client}, items([]string{key}, page), cfg, nil)
		require.NoError(t, err)
		require.NoError(t, got[0].Err)
		var nodes []string
		for _, x := range got[0].Value {
			nodes = append(nodes, x.Segment)
		}
		return nodes
	}
	require.ElementsMatch(t, []string{"node-0:1", "node-1:1", "node-2:1"}, place("three", model.ReplicateConfig{ReplicaNum: 3}))
	require.Len(t, place("five", model.ReplicateConfig{ReplicaNum: 5}), 3, "best effort")
	require.Equal(t, 1.0, r.value("master_put_start_partial_allocations_total"))
	require.Equal(t, []string{"node-2:1"}, place("preferred", model.ReplicateConfig{ReplicaNum: 1, PreferredSegments: []string{"nowhere", "node-2:1"}}))
	require.Equal(t, []string{"node-1:1", "node-0:1"}, place("two", model.ReplicateConfig{ReplicaNum: 2, PreferredSegments: []string{"node-1:1", "node-0:1"}}))

	r.end("three")
	require.NoError(t, r.UnmountSegment(r.ctx, r.client, r.segs[1].ID, 0))
	got, err := r.GetReplicas(r.ctx, model.Caller{}, []string{"three"}, nil)
	require.NoError(t, err)
	require.Len(t, got[0].Value.Replicas, 2, "the others can still be read")
}

func TestCopiesStayApartWhenOneNodeIsFull(t *testing.T) {
	r := start(t, nil, 1, 4, 4)
	for i, key := range names("k", 0, 4) {
		got, err := r.PutStart(r.ctx, model.Caller{Client: r.client}, items([]string{key}, page), model.ReplicateConfig{ReplicaNum: 2}, nil)
		require.NoError(t, err)
		require.NoError(t, got[0].Err)
		require.Len(t, got[0].Value, 2, "object %d", i)
		require.NotEqual(t, got[0].Value[0].Segment, got[0].Value[1].Segment)
	}
}

func TestFreeRatioFirstBalances(t *testing.T) {
	r := startWith(t, "free_ratio_first", 100, 100, 100)
	for _, k := range names("k", 0, 150) {
		r.put(k)
	}
	list, err := r.Segments(r.ctx)
	require.NoError(t, err)
	for _, s := range list {
		require.InDelta(t, 50*page, s.Used, page)
	}
}

// TestTheSameMemoryUnderAnotherClient mounts memory again under another client and address range, as
// a store does that was restarted before the master missed it.
func TestTheSameMemoryUnderAnotherClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, noLease, 4, 4)
		other := model.UUID{Hi: 5}
		again := r.segs[0]
		again.ID, again.Base = model.UUID{Hi: 8}, again.Base+2*page
		r.put("a", "b", "c", "d", "e", "f")
		refused := r.MountSegment(r.ctx, other, again)
		require.Equal(t, errs.UnavailableInCurrentStatus, errs.CodeOf(refused))
		require.True(t, errs.ClassOf(refused).Retryable())
		require.ErrorContains(t, refused, "the same memory")
		require.Equal(t, errs.UnavailableInCurrentStatus, errs.CodeOf(r.RemountSegments(r.ctx, other, []model.Segment{segment(5, page), again})))
		require.Len(t, r.here(), 6)

		elsewhere := again
		elsewhere.ID, elsewhere.Endpoint = model.UUID{Hi: 9}, "node-9:1"
		require.NoError(t, r.MountSegment(r.ctx, model.UUID{Hi: 6}, elsewhere), "the same addresses at another endpoint are other memory")
		unnamed := r.segs[1]
		unnamed.ID, unnamed.Endpoint = model.UUID{Hi: 10}, ""
		require.NoError(t, r.MountSegment(r.ctx, model.UUID{Hi: 6}, unnamed), "an empty endpoint says nothing")
		unnamed.ID = model.UUID{Hi: 11}
		require.NoError(t, r.MountSegment(r.ctx, model.UUID{Hi: 7}, unnamed))

		settled(segments.SilentAfter - time.Millisecond)
		require.Error(t, r.MountSegment(r.ctx, other, again))
		settled(time.Millisecond)
		require.NoError(t, r.MountSegment(r.ctx, other, again), "its client is silent: the process at the endpoint is a new one")
		list, err := r.Segments(r.ctx)
		require.NoError(t, err)
		ids := map[model.SegmentID]bool{}
		for _, s := range list {
			ids[s.ID] = true
		}
		require.Equal(t, map[model.SegmentID]bool{r.segs[1].ID: true, {Hi: 8}: true, {Hi: 9}: true, {Hi: 10}: true, {Hi: 11}: true}, ids)
		require.Less(t, len(r.here()), 6, "what lay in the dropped segment is gone")
	})
}
