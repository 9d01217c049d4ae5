package master_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master/internal/mastertest"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// quarantine revokes puts whose memory a peer may still write to.
func (r *rig) quarantine(items ...model.RevokeItem) []errs.Code {
	r.t.Helper()
	for i := range items {
		items[i].Quarantined = true
	}
	got, err := r.PutRevoke(r.ctx, model.Caller{Client: r.client}, items)
	require.NoError(r.t, err)
	return errCodes(got)
}

// Revoking a put with an indeterminate transfer frees its key at once. The master frees its memory
// only once no client can write there any more.
func TestIndeterminateRevoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil, 3)
		require.Equal(t, []errs.Code{errs.OK, errs.OK}, r.begin("k", "plain"))
		r.keepAlive(10 * time.Second)
		got, err := r.PutRevoke(r.ctx, model.Caller{Client: r.client}, []model.RevokeItem{{Key: "k", Quarantined: true}, {Key: "plain"}})
		require.NoError(t, err)
		require.Equal(t, []errs.Code{errs.OK, errs.OK}, errCodes(got))
		require.Len(t, r.alloc.Live(), 1, "that of the other is free at once")
		require.Equal(t, float64(page), r.value("master_put_start_discarded_staging_size"))
		require.Equal(t, 1.0, r.value("master_put_start_discard_cnt"))
		require.Equal(t, 1.0, r.value("master_put_revoke_quarantined_total"))
		require.Equal(t, one(errs.ObjectNotFound), r.get("k"))
		require.Equal(t, one(errs.ObjectNotFound), r.end("k"))

		r.put("k")
		require.Equal(t, one(errs.OK), r.get("k"), "the writer tried again")
		require.Equal(t, one(errs.OK), r.begin("third"))
		require.Equal(t, one(errs.NoAvailableHandle), r.begin("fourth"), "one of three is held")
		r.keepAlive(589 * time.Second)
		require.Len(t, r.alloc.Live(), 3)
		r.keepAlive(2 * time.Second)
		require.NotZero(t, r.value("master_put_start_release_cnt"))
		require.Equal(t, one(errs.OK), r.begin("fourth"), "600 s after the put start")
	})
}

// A refused revoke with an indeterminate transfer quarantines no memory.
func TestWhatIndeterminateRevokeRefuses(t *testing.T) {
	r := start(t, nil, 8)
	r.put("done")
	got, err := r.PutStart(r.ctx, model.Caller{Client: r.client}, items([]string{"mine"}, page), model.DefaultReplicateConfig(), nil)
	require.NoError(t, err)
	put := got[0].Value[0].ID
	require.Equal(t, []errs.Code{errs.ObjectNotFound, errs.InvalidWrite, errs.InvalidWrite, errs.ObjectNotFound},
		r.quarantine(model.RevokeItem{Key: "unknown"}, model.RevokeItem{Key: "done"}, model.RevokeItem{Key: "mine", Put: put + 1}, model.RevokeItem{}))
	other, err := r.PutRevoke(r.ctx, model.Caller{Client: model.UUID{Hi: 9}}, []model.RevokeItem{{Key: "mine", Put: put, Quarantined: true}})
	require.NoError(t, err)
	require.Equal(t, one(errs.IllegalClient), errCodes(other))
	require.Zero(t, r.value("master_put_start_discarded_staging_size"))
	require.Zero(t, r.value("master_put_revoke_quarantined_total"))
	require.Equal(t, one(errs.OK), r.quarantine(model.RevokeItem{Key: "mine", Put: put}))
	require.Equal(t, one(errs.ObjectNotFound), r.quarantine(model.RevokeItem{Key: "mine", Put: put}), "it is known once")
	require.Equal(t, float64(page), r.value("master_put_start_discarded_staging_size"))
}

// An upsert in place can also quarantine memory, and the quarantine survives a restart of the
// allocator.
func TestIndeterminateUpsert(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil, 2)
		r.put("k")
		before := r.alloc.Live()
		again, err := r.PutStart(r.ctx, model.Caller{Client: r.client}, items([]string{"k"}, page), model.ReplicateConfig{ReplicaNum: 1, Upsert: true}, nil)
		require.NoError(t, err)
		require.NoError(t, again[0].Err)
		require.Equal(t, 1.0, r.value("master_upserts_in_place_total"))
		require.Equal(t, one(errs.OK), r.quarantine(model.RevokeItem{Key: "k", Put: again[0].Value[0].ID}))
		require.Equal(t, before, r.alloc.Live())
		fresh := mastertest.NewAlloc()
		require.NoError(t, r.ReplayAlloc(r.ctx, fresh))
		require.Equal(t, before, fresh.Live())
		require.Equal(t, one(errs.OK), r.begin("k"))
		require.Equal(t, one(errs.NoAvailableHandle), r.begin("other"))
	})
}
