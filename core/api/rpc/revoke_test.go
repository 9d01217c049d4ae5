package rpc_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/api/rpc"
	"github.com/mooncake-go/mooncake/core/api/rpc/client"
	"github.com/mooncake-go/mooncake/core/api/rpc/convert"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

var mixed = []model.RevokeItem{{Key: "q1", Put: 1, Quarantined: true}, {Key: "p1", Put: 2}, {Key: "q2", Put: 3, Quarantined: true}, {Key: "p2", Put: 4}}

// earlierMaster revokes puts as one that does not know the quarantine.
type earlierMaster struct {
	masterv1.UnimplementedMasterServiceServer
	revoked [][]byte
}

func (m *earlierMaster) Ready(context.Context, *masterv1.ReadyRequest) (*masterv1.ReadyResponse, error) {
	return &masterv1.ReadyResponse{Protocol: rpc.OwnProtocol()}, nil
}

func (m *earlierMaster) PutRevoke(_ context.Context, in *masterv1.PutRevokeRequest) (*masterv1.PutRevokeResponse, error) {
	m.revoked = append(m.revoked, in.GetKeys()...)
	return &masterv1.PutRevokeResponse{Errors: convert.ToErrors(len(in.GetKeys()), func(i int) error {
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
	c, err := client.Dial(ln.Addr().String(), client.Options{GRPC: true})
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
