package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// TestRenew: reads in flight show the grants of a renewed lease, but only for memory that both answers name.
func TestRenew(t *testing.T) {
	permit := func(n byte) *transport.Permit { return transport.PermitOf(&transport.Grant{n}) }
	part := func(at uint64, p *transport.Permit) model.Part {
		return model.Part{SegmentID: model.UUID{Hi: 1}, Address: at, Size: 8, Permit: p}
	}
	held := [4]*transport.Permit{permit(1), permit(2), permit(3), permit(4)}
	old := model.Object{Replicas: []model.Replica{
		{ID: 1, Part: part(0, held[0]), More: []model.Part{part(8, held[1])}},
		{ID: 2, Part: part(16, held[2])},
		{ID: 3, Part: part(24, held[3])},
		{ID: 4, Part: part(32, nil)},
	}}
	now := model.Object{Replicas: []model.Replica{
		{ID: 2, Part: part(99, permit(12))}, // Elsewhere.
		{ID: 1, Part: part(0, permit(10)), More: []model.Part{part(8, permit(11))}},
		{ID: 3, Part: part(24, nil)}, // Nothing was granted.
		{ID: 4, Part: part(32, permit(14))},
	}}
	now.Renew(&old)
	for i, want := range []byte{10, 11, 3, 4} {
		require.Equal(t, want, held[i].Grant()[0], "permit %d", i)
	}
	require.Same(t, held[0], now.Replicas[1].Permit, "the next renewal reaches the same reads")
	require.Same(t, held[1], now.Replicas[1].More[0].Permit)
	require.EqualValues(t, 12, now.Replicas[0].Permit.Grant()[0])
	require.EqualValues(t, 14, now.Replicas[3].Permit.Grant()[0])
}
