package service_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/upstream/calls"
	"github.com/mooncake-go/mooncake/core/api/upstream/service"
	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// earlier is a master of a release that does not know of upstream's clients, nor of puts whose memory is held.
type earlier struct{ *master.Service }

func (e earlier) PutStart(ctx context.Context, c model.Caller, items []model.PutItem, cfg model.ReplicateConfig, into *model.Answer[[]model.Replica]) ([]model.Result[[]model.Replica], error) {
	c.Upstream = false
	return e.Service.PutStart(ctx, c, items, cfg, into)
}

func (e earlier) PutRevoke(ctx context.Context, c model.Caller, items []model.RevokeItem) ([]error, error) {
	for _, it := range items {
		if it.Quarantined {
			return nil, errs.New(errs.NotSupported, "master: put revoke", "it holds nothing")
		}
	}
	return e.Service.PutRevoke(ctx, c, items)
}

func (e earlier) GetReplicas(ctx context.Context, c model.Caller, keys []model.Key, into *model.Answer[model.Object]) ([]model.Result[model.Object], error) {
	c.Upstream = false
	return e.Service.GetReplicas(ctx, c, keys, into)
}

func (e earlier) CopyStart(ctx context.Context, c model.Caller, kind model.CopyKind, key model.Key, source string, targets []string) (model.CopyPlan, error) {
	c.Upstream = false
	return e.Service.CopyStart(ctx, c, kind, key, source, targets)
}

// While masters are replaced one by one, a call may be passed on to a master of an earlier release. What it answers is not handed
// to a client that cannot use it.
func TestAMasterOfAnEarlierRelease(t *testing.T) {
	each(t, calls.V9, func(t *testing.T, v calls.Version) {
		p := newPool(t, func(c *master.Config) { c.StripeSize = 1 << 20 }, 4<<10, 4<<10)
		p.Service = service.New(earlier{p.master}, slog.New(slog.DiscardHandler))
		c := p.client(v, 1)
		require.Equal(t, errs.NoAvailableHandle, c.start("striped", 3<<20, calls.ReplicateConfig{}).Code)
		for _, s := range p.segments() {
			require.Equal(t, [3]uint64{}, [3]uint64{s.Used, s.Writing, s.Held}, "the client does not know where to write")
		}
		c.put("whole", 10, calls.ReplicateConfig{})
		require.Len(t, c.get("whole").Value.Replicas, 1)

		ours := model.Caller{Client: model.UUID{Hi: 0x90}}
		_, err := p.master.PutStart(t.Context(), ours, []model.PutItem{{Key: "striped", Size: 3 << 20}}, model.DefaultReplicateConfig(), nil)
		require.NoError(t, err)
		_, err = p.master.PutEnd(t.Context(), ours, []model.EndItem{{Key: "striped"}}, nil)
		require.NoError(t, err)
		require.Equal(t, errs.ReplicaIsNotReady, c.get("striped").Code)
		p.join(v, 2, 4<<10)
		require.Equal(t, errs.ReplicaIsNotReady, ask(p, v, calls.CopyStart,
			calls.CopyStartRequest{Client: c.id, Key: "striped", Tenant: "default", Source: nameOf(0), Targets: []string{nameOf(2)}}).Code)
		story, err := p.master.Why(t.Context(), model.Caller{}, "striped")
		require.NoError(t, err)
		require.False(t, story.Copying)

		require.Equal(t, errs.OK, c.start("revoked", 10, calls.ReplicateConfig{}).Code)
		require.Equal(t, errs.OK, c.revoke("revoked"))
	})
}
