package master_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/model"
)

func (r *rig) why(key string) model.Story {
	r.t.Helper()
	story, err := r.Why(r.ctx, model.Caller{}, key)
	require.NoError(r.t, err)
	return story
}

// Whatever became of a key, the master says so, and why.
func TestEveryFateIsTold(t *testing.T) {
	cases := map[string]struct {
		fate   model.Fate
		reason string
		do     func(r *rig)
	}{
		"never written":     {model.FateUnknown, "never written", func(*rig) {}},
		"readable":          {model.FateReadable, "may be evicted", func(r *rig) { r.put("k") }},
		"writing":           {model.FateWriting, "being written", func(r *rig) { r.begin("k") }},
		"looked up":         {model.FateReadable, "looked up a moment ago", func(r *rig) { r.put("k"); r.exist("k") }},
		"leased":            {model.FateReadable, "holds a lease", func(r *rig) { r.put("k"); r.get("k") }},
		"evicted for a put": {model.FateEvicted, "a put found no space", func(r *rig) { r.put("k"); r.put(names("x", 0, 4)...) }},
		"removed":           {model.FateRemoved, "named it", func(r *rig) { r.put("k"); r.remove(true, "k") }},
		"removed by expression": {model.FateRemoved, "regular expression", func(r *rig) {
			r.put("k")
			require.NoError(r.t, second(r.RemoveByRegex(r.ctx, model.Caller{}, "k", true)))
		}},
		"removed with all": {model.FateRemoved, "removed everything", func(r *rig) {
			r.put("k")
			require.NoError(r.t, second(r.RemoveAll(r.ctx, model.Caller{}, true)))
		}},
		"cleared": {model.FateRemoved, "replica clear", func(r *rig) {
			r.put("k")
			cleared, err := r.ClearReplicas(r.ctx, model.Caller{}, []string{"k"}, r.client, "node-0:1")
			require.NoError(r.t, err)
			require.Equal(r.t, []string{"k"}, cleared)
		}},
		"unmounted": {model.FateLost, "was unmounted", func(r *rig) {
			r.put("k")
			require.NoError(r.t, r.UnmountSegment(r.ctx, r.client, r.segs[0].ID, 0))
		}},
		"node silent": {model.FateLost, "no sign of life", func(r *rig) { r.put("k"); time.Sleep(12 * time.Second) }},
		"revoked": {model.FateRevoked, "gave the put up", func(r *rig) {
			r.begin("k")
			require.NoError(r.t, errOf(r.PutRevoke(r.ctx, model.Caller{Client: r.client}, revokes([]string{"k"}))))
		}},
		"revoked while indeterminate": {model.FateRevoked, "outcome of a transfer is indeterminate", func(r *rig) {
			r.begin("k")
			require.NoError(r.t, errOf(r.PutRevoke(r.ctx, model.Caller{Client: r.client}, []model.RevokeItem{{Key: "k", Quarantined: true}})))
		}},
		"overdue": {model.FateOverdue, "put_start_release_timeout", func(r *rig) { r.begin("k"); r.keepAlive(602 * time.Second) }},
		"writer silent": {model.FateOverdue, "its writer expired", func(r *rig) {
			other := model.UUID{Hi: 5}
			require.NoError(r.t, r.RemountSegments(r.ctx, other, nil))
			require.NoError(r.t, second(r.PutStart(r.ctx, model.Caller{Client: other}, items([]string{"k"}, page), model.DefaultReplicateConfig(), nil)))
			r.keepAlive(12 * time.Second)
		}},
		"overwritten": {model.FateWriting, "being written", func(r *rig) {
			r.put("k")
			require.NoError(r.t, second(r.PutStart(r.ctx, model.Caller{Client: r.client}, items([]string{"k"}, 2*page), model.ReplicateConfig{ReplicaNum: 1, Upsert: true}, nil)))
		}},
		"hard pinned": {model.FateReadable, "hard pinned", func(r *rig) {
			require.NoError(r.t, second(r.write(model.ReplicateConfig{ReplicaNum: 1, HardPin: true}, "k", 1)))
		}},
		"softly pinned": {model.FateReadable, "softly pinned", func(r *rig) {
			require.NoError(r.t, second(r.write(model.ReplicateConfig{ReplicaNum: 1, SoftPin: model.SoftPin{Action: model.SoftPinEnable}}, "k", 1)))
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, nil, 4)
				c.do(r)
				synctest.Wait()
				story := r.why("k")
				require.Equal(t, c.fate, story.Fate, story.Reason)
				require.Contains(t, story.Reason, c.reason)
			})
		})
	}
}

func TestEvictionAtTheWatermarkIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(c *master.Config) { noLease(c); c.EvictionHighWatermark = 0.5 }, 8)
		r.put("k")
		r.put(names("x", 0, 4)...)
		settled(100 * time.Millisecond)
		story := r.why("k")
		require.Equal(t, model.FateEvicted, story.Fate)
		require.Contains(t, story.Reason, "eviction_high_watermark_ratio")
	})
}
