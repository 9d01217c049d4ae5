package master_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/boottime"
	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/master/internal/mastertest"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// term is a leadership until a moment that the test moves.
type term struct {
	epoch uint64
	until atomic.Int64
}

func (t *term) Epoch() uint64           { return t.epoch }
func (t *term) Until() boottime.Instant { return boottime.Instant(t.until.Load()) }
func (t *term) lasts(d time.Duration)   { t.until.Store(time.Now().Add(d).UnixNano()) }

// TestAMasterThatIsOneOfSeveral: it serves while its leadership holds, and no longer; meanwhile no client expires.
func TestAMasterThatIsOneOfSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startFrom(t, master.Deps{Alloc: mastertest.NewAlloc(), Evict: mastertest.NewLRU(), Standby: true}, nil)
		refused := func(why string) {
			t.Helper()
			_, err := r.Ping(r.ctx, r.client, model.PingReport{})
			require.Equal(t, errs.UnavailableInCurrentStatus, errs.CodeOf(err), "%v", err)
			require.ErrorContains(t, err, why)
			_, err = r.Ready(r.ctx)
			require.Equal(t, errs.UnavailableInCurrentStatus, errs.CodeOf(err))
		}
		refused("another one leads")

		l := &term{epoch: uint64(time.Now().UnixMilli())}
		l.lasts(time.Hour)
		r.Lead(l, 7)
		require.NoError(t, r.MountSegment(r.ctx, r.client, segment(0, 64*page)))
		require.NoError(t, r.RemountSegments(r.ctx, r.client, []model.Segment{segment(0, 64*page)}))
		r.put("a")
		reply, err := r.Ping(r.ctx, r.client, model.PingReport{})
		require.NoError(t, err)
		require.Equal(t, model.PingReply{Status: model.ClientOK, ViewVersion: 7, Epoch: reply.Epoch, Clock: reply.Clock}, reply)

		l.lasts(0)
		refused("not renewed")
		r.Suspend(r.ctx)
		settled(time.Hour) // Far longer than client_ttl.
		refused("another one leads")

		l.lasts(time.Hour)
		r.Lead(l, 7)
		settled(2 * time.Second)
		reply, err = r.Ping(r.ctx, r.client, model.PingReport{})
		require.NoError(t, err)
		require.Equal(t, model.ClientOK, reply.Status, "the client could not ping")
		got, err := r.Exist(r.ctx, model.Caller{}, []model.Key{"a"})
		require.NoError(t, err)
		require.True(t, got[0].Value, "what it knew is still there")
	})
}
