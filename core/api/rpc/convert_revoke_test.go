package rpc

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

var mixed = []model.RevokeItem{{Key: "q1", Put: 1, Quarantined: true}, {Key: "p1", Put: 2}, {Key: "q2", Put: 3, Quarantined: true}, {Key: "p2", Put: 4}}

// TestRevokesInQuarantineHaveTheirOwnColumns, and every item gets its own answer.
func TestRevokesInQuarantineHaveTheirOwnColumns(t *testing.T) {
	in := wirePutRevoke(model.Caller{}, mixed)
	require.Equal(t, [][]byte{[]byte("p1"), []byte("p2")}, in.GetKeys())
	require.Equal(t, []uint64{2, 4}, in.GetPuts())
	items, err := goPutRevoke(in)
	require.NoError(t, err)
	require.Equal(t, []model.RevokeItem{mixed[1], mixed[3], mixed[0], mixed[2]}, items)
	each := make([]error, len(items))
	for i := range items {
		each[i] = errs.New(errs.InvalidWrite, "test", "%s", items[i].Key)
	}
	each[0], each[3] = nil, nil
	out := wireRevoked(in, each)
	require.EqualValues(t, 2, out.GetQuarantined())
	got, err := goRevoked(mixed, out)
	require.NoError(t, err)
	require.ErrorContains(t, got[0], "q1")
	require.NoError(t, got[1])
	require.NoError(t, got[2])
	require.ErrorContains(t, got[3], "p2")

	out.Quarantined = 1
	_, err = goRevoked(mixed, out)
	require.Equal(t, errs.DeserializeFail, errs.CodeOf(err))
	in.QuarantinedPuts = in.QuarantinedPuts[:1]
	_, err = goPutRevoke(in)
	require.Equal(t, errs.DeserializeFail, errs.CodeOf(err))
	_, err = goPutRevoke(&masterv1.PutRevokeRequest{Keys: make([][]byte, maxItems/2), QuarantinedKeys: make([][]byte, maxItems/2+1)})
	require.Equal(t, errs.InvalidParams, errs.CodeOf(err))
}

// earlierMaster revokes puts as one that does not know the quarantine.
type earlierMaster struct {
	masterv1.UnimplementedMasterServiceServer
	revoked [][]byte
}

func (m *earlierMaster) Ready(context.Context, *masterv1.ReadyRequest) (*masterv1.ReadyResponse, error) {
	return &masterv1.ReadyResponse{Protocol: ownProtocol()}, nil
}

func (m *earlierMaster) PutRevoke(_ context.Context, in *masterv1.PutRevokeRequest) (*masterv1.PutRevokeResponse, error) {
	m.revoked = append(m.revoked, in.GetKeys()...)
	return &masterv1.PutRevokeResponse{Errors: itemErrors(len(in.GetKeys()), func(i int) error {
		if string(in.GetKeys()[i]) == "p2" {
			return errs.ObjectNotFound.Err()
		}
		return nil
	})}, nil
}

// TestMasterWithoutAQuarantine is not told to free what may still be written, and the client
// hears so.
func TestMasterWithoutAQuarantine(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	m, s := &earlierMaster{}, grpc.NewServer()
	masterv1.RegisterMasterServiceServer(s, m)
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	defer func() { s.Stop(); require.NoError(t, <-done) }()
	c, err := Dial(ln.Addr().String(), Options{GRPC: true})
	require.NoError(t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, items := range [][]model.RevokeItem{mixed, {mixed[0], mixed[2]}} {
		got, err := c.PutRevoke(ctx, model.Caller{}, items)
		require.NoError(t, err)
		for i := range items {
			want := map[string]errs.Code{"q1": errs.NotSupported, "q2": errs.NotSupported, "p2": errs.ObjectNotFound}[items[i].Key]
			require.Equal(t, want, errs.CodeOf(got[i]), items[i].Key)
		}
	}
	require.Equal(t, [][]byte{[]byte("p1"), []byte("p2")}, m.revoked)
}
