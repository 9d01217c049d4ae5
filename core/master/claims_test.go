package master_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/master/internal/mastertest"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// TestNoSegmentTakesThePlaceOfAnotherIdentitys, by its id, its name, the name of its node or its endpoint, while it is
// there. Clients of one identity may, as without identities.
func TestNoSegmentTakesThePlaceOfAnotherIdentitys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deps := master.Deps{Alloc: mastertest.NewAlloc(), Evict: mastertest.NewLRU(), Identities: true}
		r := startFrom(t, deps, noLease, 4)
		theirs := r.segs[0]
		same := model.UUID{Hi: r.client.Hi, Lo: 99}
		other := model.UUID{Hi: r.client.Hi + 1, Lo: 1}
		free := segment(7, page)
		for what, change := range map[string]func(*model.Segment){
			"the id":            func(s *model.Segment) { s.ID = theirs.ID },
			"the name":          func(s *model.Segment) { s.Name = theirs.Name },
			"a tier":            func(s *model.Segment) { s.Name = theirs.Name + "/ssd" },
			"the endpoint":      func(s *model.Segment) { s.Endpoint = theirs.Endpoint },
			"other addresses":   func(s *model.Segment) { s.Name, s.Base = theirs.Name, 1<<50 },
			"all but its owner": func(s *model.Segment) { *s = theirs },
		} {
			seg := free
			change(&seg)
			for call, err := range map[string]error{
				"mount":   r.MountSegment(r.ctx, other, seg),
				"remount": r.RemountSegments(r.ctx, other, []model.Segment{free, seg}),
				"attach": func() error {
					_, err := r.Attach(r.ctx, other, []model.LedgerState{{Segment: seg}})
					return err
				}(),
			} {
				if seg.OnTier() && call != "attach" {
					continue // It has a ledger.
				}
				require.Equal(t, errs.IllegalClient, errs.CodeOf(err), "%s with %s: %v", call, what, err)
				require.True(t, errs.ClassOf(err).Retryable(), "the segment may go")
			}
		}
		list, err := r.Segments(r.ctx)
		require.NoError(t, err)
		require.Len(t, list, 1)
		beside := free
		beside.Name, beside.Endpoint = theirs.Name, theirs.Endpoint
		require.NoError(t, r.MountSegment(r.ctx, same, beside), "another process of the identity")
		require.NoError(t, r.MountSegment(r.ctx, other, segment(8, page)))
		near := segment(9, page)
		near.Name = theirs.Name + "0"
		require.NoError(t, r.MountSegment(r.ctx, other, near), "a name that only begins so")
		require.NoError(t, r.UnmountSegment(r.ctx, r.client, theirs.ID, 0))
		require.NoError(t, r.UnmountSegment(r.ctx, same, beside.ID, 0))
		taken := segment(10, page)
		taken.Name, taken.Endpoint = theirs.Name, theirs.Endpoint
		require.NoError(t, r.MountSegment(r.ctx, other, taken), "once it is gone")
	})
}

// TestAnAttachHoldsItsName while the ledger is reported.
func TestAnAttachHoldsItsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startFrom(t, master.Deps{Alloc: mastertest.NewAlloc(), Evict: mastertest.NewLRU(), Identities: true}, noLease)
		k := newKeeper(t, 1, 4)
		_, err := r.Attach(r.ctx, k.client, []model.LedgerState{{Segment: k.segs[0]}})
		require.NoError(t, err)
		thief := segment(50, page)
		thief.Name = k.segs[0].Name
		require.Equal(t, errs.IllegalClient, errs.CodeOf(r.MountSegment(r.ctx, model.UUID{Hi: 77, Lo: 1}, thief)))
		k.join(r)
		require.Equal(t, errs.IllegalClient, errs.CodeOf(r.MountSegment(r.ctx, model.UUID{Hi: 77, Lo: 1}, thief)))
	})
}
