package rpc_test

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/access"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// callers passes the caller of each call to tell.
type callers struct {
	store.Master
	tell func(context.Context, model.Caller)
}

func (c callers) Exist(ctx context.Context, caller model.Caller, keys []model.Key) ([]model.Result[bool], error) {
	c.tell(ctx, caller)
	return make([]model.Result[bool], len(keys)), nil
}

func (c callers) GetReplicas(ctx context.Context, caller model.Caller, keys []model.Key, _ *model.Answer[model.Object]) ([]model.Result[model.Object], error) {
	c.tell(ctx, caller)
	return []model.Result[model.Object]{{Err: errs.ObjectNotFound.Err()}}, nil
}

func (c callers) PutStart(ctx context.Context, caller model.Caller, _ []model.PutItem, _ model.ReplicateConfig, _ *model.Answer[[]model.Replica]) ([]model.Result[[]model.Replica], error) {
	c.tell(ctx, caller)
	return []model.Result[[]model.Replica]{{Err: errs.ObjectAlreadyExists.Err()}}, nil
}

func (c callers) CopyRevoke(ctx context.Context, caller model.Caller, _ model.CopyKind, _ model.Key) error {
	c.tell(ctx, caller)
	return nil
}

// TestCallersArrive with all that a call says of them, in calls whose messages are pooled too: the caller of one call is not taken for that of
// the one before.
func TestCallersArrive(t *testing.T) {
	var got []model.Caller
	var peers []*access.Peer
	m := connect(t, callers{tell: func(ctx context.Context, c model.Caller) {
		got, peers = append(got, c), append(peers, access.Of(ctx))
	}})
	ctx := t.Context()
	for _, want := range []model.Caller{
		{Client: model.UUID{Hi: 1, Lo: 2}, Tenant: "t", Upstream: true}, {Client: model.UUID{Hi: 3}}, {Tenant: "u", Upstream: true}, {},
	} {
		got = nil
		_, err := m.Exist(ctx, want, []model.Key{"k"})
		require.NoError(t, err)
		_, err = m.GetReplicas(ctx, want, []model.Key{"k"}, &model.Answer[model.Object]{})
		require.NoError(t, err)
		_, err = m.PutStart(ctx, want, []model.PutItem{{Key: "k", Size: 1}}, model.DefaultReplicateConfig(), &model.Answer[[]model.Replica]{})
		require.NoError(t, err)
		require.NoError(t, m.CopyRevoke(ctx, want, model.CopyObject, "k"))
		require.Equal(t, []model.Caller{want, want, want, want}, got)
	}
	for _, p := range peers {
		if os.Getenv(overTLS) == "" {
			require.Nil(t, p, "a plaintext connection has no identity")
			continue
		}
		require.NotNil(t, p)
		require.Equal(t, security.RoleStore, p.Identity.Role)
		require.Equal(t, config.DoorRPC, p.Door)
		require.Same(t, peers[0], p, "a connection has one")
	}
}
