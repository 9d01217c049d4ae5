package master_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master/internal/mastertest"
	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// The answer of a PutStart whose caller has gone reaches no client. So no client will ever write
// to the memory that it allocated, or revoke the put.
func TestPutStartOfACallerWhoHasGoneHoldsNoMemory(t *testing.T) {
	inner := mastertest.NewAlloc()
	a := &leaving{Allocator: inner}
	r := startOn(t, a, mastertest.NewLRU(), nil, 8)
	ctx, hangUp := context.WithCancel(t.Context())
	a.hangUp = hangUp
	_, err := r.PutStart(ctx, model.Caller{Client: r.client}, items([]string{"a", "b"}, page), model.DefaultReplicateConfig(), nil)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, inner.Live())
	require.Equal(t, []errs.Code{errs.OK, errs.OK}, r.begin("a", "b"), "the keys are free at once")
}

// A copy that no client knows of would keep its object from being evicted or removed.
func TestCopyStartOfACallerWhoHasGonePinsNothing(t *testing.T) {
	for _, kind := range []model.CopyKind{model.CopyObject, model.MoveObject} {
		inner := mastertest.NewAlloc()
		a := &leaving{Allocator: inner, hangUp: func() {}}
		r := startOn(t, a, mastertest.NewLRU(), nil, 8)
		r.put("k")
		require.NoError(t, r.MountSegment(r.ctx, r.client, segment(1, 8*page)))
		ctx, hangUp := context.WithCancel(t.Context())
		a.hangUp = hangUp
		_, err := r.CopyStart(ctx, model.Caller{Client: r.client}, kind, "k", "node-0:1", []string{"node-1:1"})
		require.ErrorIs(t, err, context.Canceled)
		require.Len(t, inner.Live(), 1)
		require.Equal(t, one(errs.OK), r.remove(true, "k"), "no copy is in progress")
		require.Empty(t, inner.Live())
	}
}

// A copy without a target costs nothing and protects its object, so that one client may
// have only so many.
func TestOneClientCannotPinEverything(t *testing.T) {
	r := start(t, noLease, 2048)
	keys := names("k", 0, objects.MaxCopies+1)
	r.put(keys...)
	begin := func(client model.ClientID, key string) errs.Code {
		_, err := r.CopyStart(r.ctx, model.Caller{Client: client}, model.CopyObject, key, "", []string{"node-0:1"})
		return errs.CodeOf(err)
	}
	for _, k := range keys[1:] {
		require.Equal(t, errs.OK, begin(r.client, k))
	}
	require.Equal(t, errs.TaskPendingLimitExceeded, begin(r.client, keys[0]))
	require.Equal(t, errs.OK, begin(stranger.Client, keys[0]), "others are not concerned")
	require.NoError(t, r.CopyRevoke(r.ctx, stranger, model.CopyObject, keys[0]))
	require.NoError(t, r.CopyEnd(r.ctx, model.Caller{Client: r.client}, model.CopyObject, keys[1]))
	require.Equal(t, errs.OK, begin(r.client, keys[0]))
	require.Equal(t, errs.TaskPendingLimitExceeded, begin(r.client, keys[1]))
	require.NoError(t, r.CopyRevoke(r.ctx, model.Caller{Client: r.client}, model.CopyObject, keys[2]))
	require.Equal(t, errs.OK, begin(r.client, keys[1]))
	require.NoError(t, r.UnmountSegment(r.ctx, r.client, r.segs[0].ID, 0)) // every object goes
	fresh := segment(0, 2048*page)
	fresh.Base *= 9
	require.NoError(t, r.MountSegment(r.ctx, r.client, fresh))
	r.put(keys...)
	require.Equal(t, errs.OK, begin(r.client, keys[0]), "copies of objects that went count no more")
}

// leaving ends its caller's context while it allocates.
type leaving struct {
	alloc.Allocator
	hangUp func()
}

func (l *leaving) Alloc(ctx context.Context, requests []alloc.Request) ([]alloc.Result, error) {
	l.hangUp()
	return l.Allocator.Alloc(ctx, requests)
}

// A mount that failed may have reached the allocator all the same.
func TestFailedMountLeavesNoSpaceBehind(t *testing.T) {
	a := &unheard{Allocator: mastertest.NewAlloc()}
	r := startOn(t, a, mastertest.NewLRU(), nil)
	require.Error(t, r.MountSegment(r.ctx, r.client, segment(0, page)))
	require.Equal(t, a.added, a.removed)
}

// unheard adds spaces, but its answers never arrive.
type unheard struct {
	alloc.Allocator
	added, removed []alloc.SpaceID
}

func (u *unheard) AddSpace(_ context.Context, s alloc.Space) error {
	u.added = append(u.added, s.ID)
	return errs.New(errs.RPCTimeout, "test", "no answer")
}

func (u *unheard) RemoveSpace(_ context.Context, id alloc.SpaceID) error {
	u.removed = append(u.removed, id)
	return nil
}
