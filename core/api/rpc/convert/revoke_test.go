package convert

import (
	"testing"

	"github.com/stretchr/testify/require"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/api/rpc"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

var mixed = []model.RevokeItem{{Key: "q1", Put: 1, Quarantined: true}, {Key: "p1", Put: 2}, {Key: "q2", Put: 3, Quarantined: true}, {Key: "p2", Put: 4}}

// TestRevokesInQuarantineHaveTheirOwnColumns, and every item gets its own answer.
func TestRevokesInQuarantineHaveTheirOwnColumns(t *testing.T) {
	in := ToPutRevoke(model.Caller{}, mixed)
	require.Equal(t, [][]byte{[]byte("p1"), []byte("p2")}, in.GetKeys())
	require.Equal(t, []uint64{2, 4}, in.GetPuts())
	items, err := FromPutRevoke(in)
	require.NoError(t, err)
	require.Equal(t, []model.RevokeItem{mixed[1], mixed[3], mixed[0], mixed[2]}, items)
	each := make([]error, len(items))
	for i := range items {
		each[i] = errs.New(errs.InvalidWrite, "test", "%s", items[i].Key)
	}
	each[0], each[3] = nil, nil
	out := ToRevoked(in, each)
	require.EqualValues(t, 2, out.GetQuarantined())
	got, err := FromRevoked(mixed, out)
	require.NoError(t, err)
	require.ErrorContains(t, got[0], "q1")
	require.NoError(t, got[1])
	require.NoError(t, got[2])
	require.ErrorContains(t, got[3], "p2")

	out.Quarantined = 1
	_, err = FromRevoked(mixed, out)
	require.Equal(t, errs.DeserializeFail, errs.CodeOf(err))
	in.QuarantinedPuts = in.QuarantinedPuts[:1]
	_, err = FromPutRevoke(in)
	require.Equal(t, errs.DeserializeFail, errs.CodeOf(err))
	_, err = FromPutRevoke(&masterv1.PutRevokeRequest{Keys: make([][]byte, rpc.MaxItems/2), QuarantinedKeys: make([][]byte, rpc.MaxItems/2+1)})
	require.Equal(t, errs.InvalidParams, errs.CodeOf(err))
}
