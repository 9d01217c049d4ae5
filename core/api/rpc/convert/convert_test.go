package convert

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"
	pluginv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/plugin/v1"

	"github.com/mooncake-go/mooncake/core/api/rpc"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestLeaseIsRoundedDown(t *testing.T) {
	m := ToObjects([]model.Result[model.Object]{{Value: model.Object{LeaseTTL: 1999 * time.Nanosecond}}, {Value: model.Object{LeaseTTL: -1}}})
	out, err := FromObjects(2, m, &model.Answer[model.Object]{})
	require.NoError(t, err)
	assert.Equal(t, time.Microsecond, out[0].Value.LeaseTTL)
	assert.Zero(t, out[1].Value.LeaseTTL)
	m.LeaseTtlsUs[0] = 1<<64 - 1
	out, err = FromObjects(2, m, &model.Answer[model.Object]{})
	require.NoError(t, err)
	assert.Positive(t, out[0].Value.LeaseTTL)
}

func TestErrorsThatAreNone(t *testing.T) {
	for _, code := range []int32{0, 5} {
		err := FromError(&pluginv1.Error{Code: code, Class: 99})
		assert.Equal(t, errs.Internal, errs.CodeOf(err))
		assert.Equal(t, errs.ClassUnknown, errs.ClassOf(err))
		assert.NotEmpty(t, err.Error())
	}
	assert.Equal(t, errs.Code(-4242), errs.CodeOf(FromError(&pluginv1.Error{Code: -4242})), "a newer side's code is kept")
	assert.Equal(t, int32(errs.Internal), toError(&errs.Error{Code: errs.OK}).GetCode())
	assert.Less(t, len(toError(errs.New(errs.Internal, "x", "%01000000d", 1)).GetMessage()), 2048)
}

func TestEveryCodeHasAGRPCCode(t *testing.T) {
	for _, c := range errs.Codes() {
		if c != errs.OK {
			assert.NotEqual(t, codes.OK, toGRPC(c), c)
		}
	}
	for g := codes.Canceled; g <= codes.Unauthenticated; g++ {
		assert.Negative(t, int(FromGRPC(g)), g)
	}
}

func TestOtherProtocolIsRefused(t *testing.T) {
	assert.NoError(t, rpc.CheckProtocol("ready", "1", "2", &masterv1.Protocol{Major: rpc.ProtocolMajor, Minor: 9}))
	for _, p := range []*masterv1.Protocol{nil, {Major: rpc.ProtocolMajor + 1, Minor: 3}} {
		err := rpc.CheckProtocol("ready", "ours", "theirs", p)
		assert.ErrorIs(t, err, errs.InvalidVersion.Err())
		assert.ErrorContains(t, err, `"ours"`)
		assert.ErrorContains(t, err, `"theirs"`)
	}
}

func TestOversizedBatchIsRefused(t *testing.T) {
	keys := make([][]byte, rpc.MaxItems+1)
	_, err := FromBatch(keys)
	assert.Equal(t, errs.InvalidParams, errs.CodeOf(err))
	_, _, err = FromPutStart(&masterv1.PutStartRequest{Keys: keys})
	assert.Equal(t, errs.InvalidParams, errs.CodeOf(err))
	_, err = FromPutEnd(&masterv1.PutEndRequest{Keys: keys})
	assert.Equal(t, errs.InvalidParams, errs.CodeOf(err))
}

func TestPutsAreAColumnThatOldClientsLeaveOut(t *testing.T) {
	keys := [][]byte{[]byte("a"), []byte("b")}
	items, err := FromPutRevoke(&masterv1.PutRevokeRequest{Keys: keys})
	require.NoError(t, err)
	require.Equal(t, []model.RevokeItem{{Key: "a"}, {Key: "b"}}, items)
	ended, err := FromPutEnd(&masterv1.PutEndRequest{Keys: keys, ChecksumKinds: []uint32{1, 1}, Checksums: []uint64{2, 3}, Puts: []uint64{4, 0}})
	require.NoError(t, err)
	require.Equal(t, []uint64{4, 0}, []uint64{ended[0].Put, ended[1].Put})

	_, err = FromPutRevoke(&masterv1.PutRevokeRequest{Keys: keys, Puts: []uint64{1}})
	require.Equal(t, errs.DeserializeFail, errs.CodeOf(err))
	_, err = FromPutEnd(&masterv1.PutEndRequest{Keys: keys, ChecksumKinds: []uint32{1, 1}, Checksums: []uint64{2, 3}, Puts: []uint64{1, 2, 3}})
	require.Equal(t, errs.DeserializeFail, errs.CodeOf(err))
}

func TestGrainsOfItems(t *testing.T) {
	in := &masterv1.PutEndRequest{Keys: [][]byte{[]byte("a"), []byte("b"), []byte("c")}, ChecksumKinds: []uint32{1, 1, 1}, Checksums: []uint64{1, 2, 3}}
	for _, c := range []struct {
		counts, grains []uint32
		want           [][]uint32
	}{
		{nil, nil, [][]uint32{nil, nil, nil}},
		{[]uint32{0, 0, 0}, nil, [][]uint32{nil, nil, nil}},
		{[]uint32{0, 2, 1}, []uint32{7, 8, 9}, [][]uint32{nil, {7, 8}, {9}}},
		{[]uint32{0, 2}, []uint32{7, 8}, nil},
		{[]uint32{0, 2, 1}, []uint32{7, 8}, nil},
		{[]uint32{0, 2, 1}, []uint32{7, 8, 9, 10}, nil},
		{nil, []uint32{7}, nil},
		{[]uint32{1<<32 - 1, 1, 0}, nil, nil}, // It is 2^32 in all.
	} {
		in.GrainCounts, in.Grains = c.counts, c.grains
		items, err := FromPutEnd(in)
		if c.want == nil {
			require.Equal(t, errs.DeserializeFail, errs.CodeOf(err), "%v %v", c.counts, c.grains)
			continue
		}
		require.NoError(t, err)
		for i := range items {
			require.Equal(t, c.want[i], items[i].Grains)
		}
		back := &masterv1.PutEndRequest{}
		FillPutEnd(back, items)
		require.Equal(t, in.GetGrains(), back.GetGrains())
	}
}
