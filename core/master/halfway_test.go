package master_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master/internal/mastertest"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Nobody hears the answer of a PutStart whose caller has gone, so nobody will ever write to
// what it allocated, or revoke it.
func TestPutStartOfACallerWhoHasGoneHoldsNoMemory(t *testing.T) {
	inner := mastertest.NewAlloc()
	a := &leaving{Allocator: inner}
	r := startOn(t, a, mastertest.NewLRU(), nil, 8)
	ctx, hangUp := context.WithCancel(t.Context())
	a.hangUp = hangUp
	_, err := r.PutStart(ctx, model.Caller{Client: r.client}, items([]string{"a", "b"}, page), model.DefaultReplicateConfig())
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, inner.Live())
	require.Equal(t, []errs.Code{errs.OK, errs.OK}, r.begin("a", "b"), "the keys are free at once")
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
