package master_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// TestGrainsAreKept: the master keeps checksums of grains that fit the object, tells them to readers that
// ask, and forgets them when the object is replaced, in place or not.
func TestGrainsAreKept(t *testing.T) {
	const size = 100_000
	r := start(t, nil, 8*mib)
	caller, upsert := model.Caller{Client: r.client}, model.DefaultReplicateConfig()
	upsert.Upsert = true
	ask := func() []uint32 {
		plain, err := r.GetReplicas(r.ctx, model.Caller{}, []string{"k"}, nil)
		require.NoError(t, err)
		require.Nil(t, plain[0].Value.Grains, "not asked for")
		got, err := r.GetReplicas(r.ctx, model.Caller{}, []string{"k"}, &model.Answer[model.Object]{WithGrains: true})
		require.NoError(t, err)
		require.NoError(t, got[0].Err)
		return got[0].Value.Grains
	}
	put := func(grains []uint32, sum uint32) error {
		got, err := r.PutStart(r.ctx, caller, items([]string{"k"}, size), upsert, nil)
		require.NoError(t, err)
		require.NoError(t, got[0].Err)
		ended, err := r.PutEnd(r.ctx, caller, []model.EndItem{{Key: "k", Grains: grains, Checksum: model.Checksum{Kind: model.ChecksumCRC32C, Value: uint64(sum)}}}, nil)
		require.NoError(t, err)
		return ended[0]
	}
	grains := []uint32{1, 2, 3, 4, 5, 6, 7}
	sum := model.CombineGrains(grains, size)
	require.NoError(t, put(grains, sum))
	require.Equal(t, grains, ask())
	grains[0]++
	require.NotEqual(t, grains, ask(), "the master has a copy")
	require.Equal(t, errs.InvalidParams, errs.CodeOf(put(grains, sum)), "a checksum that they do not combine to")
	require.Equal(t, one(errs.ReplicaIsNotReady), r.get("k"))
	require.Equal(t, errs.InvalidParams, errs.CodeOf(put(grains[1:], model.CombineGrains(grains[1:], size))), "too few")
	require.NoError(t, put(grains, model.CombineGrains(grains, size)))
	require.Equal(t, grains, ask())
	require.NoError(t, put(nil, 7), "a writer of an earlier release")
	require.Nil(t, ask())
}
