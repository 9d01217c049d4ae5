package rpc

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"
	pluginv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/plugin/v1"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestLeaseIsRoundedDown(t *testing.T) {
	m := wireObjects([]model.Result[model.Object]{{Value: model.Object{LeaseTTL: 1999 * time.Nanosecond}}, {Value: model.Object{LeaseTTL: -1}}})
	out, err := goObjects(2, m, &model.Answer[model.Object]{})
	require.NoError(t, err)
	assert.Equal(t, time.Microsecond, out[0].Value.LeaseTTL)
	assert.Zero(t, out[1].Value.LeaseTTL)
	m.LeaseTtlsUs[0] = 1<<64 - 1
	out, err = goObjects(2, m, &model.Answer[model.Object]{})
	require.NoError(t, err)
	assert.Positive(t, out[0].Value.LeaseTTL)
}

func TestErrorsThatAreNone(t *testing.T) {
	for _, code := range []int32{0, 5} {
		err := goError(&pluginv1.Error{Code: code, Class: 99})
		assert.Equal(t, errs.Internal, errs.CodeOf(err))
		assert.Equal(t, errs.ClassUnknown, errs.ClassOf(err))
		assert.NotEmpty(t, err.Error())
	}
	assert.Equal(t, errs.Code(-4242), errs.CodeOf(goError(&pluginv1.Error{Code: -4242})), "a newer side's code is kept")
	assert.Equal(t, int32(errs.Internal), wireError(&errs.Error{Code: errs.OK}).GetCode())
	assert.Less(t, len(wireError(errs.New(errs.Internal, "x", "%01000000d", 1)).GetMessage()), 2048)
}

func TestEveryCodeHasAGRPCCode(t *testing.T) {
	for _, c := range errs.Codes() {
		if c != errs.OK {
			assert.NotEqual(t, codes.OK, toGRPC(c), c)
		}
	}
	for g := codes.Canceled; g <= codes.Unauthenticated; g++ {
		assert.Negative(t, int(fromGRPC(g)), g)
	}
}

func TestOtherProtocolIsRefused(t *testing.T) {
	assert.NoError(t, checkProtocol("ready", "1", "2", &masterv1.Protocol{Major: ProtocolMajor, Minor: 9}))
	for _, p := range []*masterv1.Protocol{nil, {Major: ProtocolMajor + 1, Minor: 3}} {
		err := checkProtocol("ready", "ours", "theirs", p)
		assert.ErrorIs(t, err, errs.InvalidVersion.Err())
		assert.ErrorContains(t, err, `"ours"`)
		assert.ErrorContains(t, err, `"theirs"`)
	}
}

func TestOversizedBatchIsRefused(t *testing.T) {
	keys := make([][]byte, maxItems+1)
	_, err := goKeys(keys)
	assert.Equal(t, errs.InvalidParams, errs.CodeOf(err))
	_, _, err = goPutStart(&masterv1.PutStartRequest{Keys: keys})
	assert.Equal(t, errs.InvalidParams, errs.CodeOf(err))
	_, err = goPutEnd(&masterv1.PutEndRequest{Keys: keys})
	assert.Equal(t, errs.InvalidParams, errs.CodeOf(err))
}

func TestPutsAreAColumnThatOldClientsLeaveOut(t *testing.T) {
	keys := [][]byte{[]byte("a"), []byte("b")}
	items, err := goPutRevoke(&masterv1.PutRevokeRequest{Keys: keys})
	require.NoError(t, err)
	require.Equal(t, []model.RevokeItem{{Key: "a"}, {Key: "b"}}, items)
	ended, err := goPutEnd(&masterv1.PutEndRequest{Keys: keys, ChecksumKinds: []uint32{1, 1}, Checksums: []uint64{2, 3}, Puts: []uint64{4, 0}})
	require.NoError(t, err)
	require.Equal(t, []uint64{4, 0}, []uint64{ended[0].Put, ended[1].Put})

	_, err = goPutRevoke(&masterv1.PutRevokeRequest{Keys: keys, Puts: []uint64{1}})
	require.Equal(t, errs.DeserializeFail, errs.CodeOf(err))
	_, err = goPutEnd(&masterv1.PutEndRequest{Keys: keys, ChecksumKinds: []uint32{1, 1}, Checksums: []uint64{2, 3}, Puts: []uint64{1, 2, 3}})
	require.Equal(t, errs.DeserializeFail, errs.CodeOf(err))
}
