package rpc_test

import (
	"context"
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/api/lean"
	"github.com/mooncake-go/mooncake/core/api/rpc/client"
	"github.com/mooncake-go/mooncake/core/api/rpc/server"
	"github.com/mooncake-go/mooncake/core/internal/foreign"
	"github.com/mooncake-go/mooncake/core/internal/framed"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// laterMaster answers Ready with the next protocol and knows no other call.
type laterMaster struct {
	masterv1.UnimplementedMasterServiceServer
}

func (laterMaster) Ready(context.Context, *masterv1.ReadyRequest) (*masterv1.ReadyResponse, error) {
	return &masterv1.ReadyResponse{Version: "9.9", Protocol: &masterv1.Protocol{Major: 3, Minor: 5}}, nil
}

// serveLater serves a laterMaster over both framings, or over gRPC alone, until the test ends.
func serveLater(t *testing.T, both bool) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	at := ln.Addr().String()
	s := grpc.NewServer()
	masterv1.RegisterMasterServiceServer(s, laterMaster{})
	l, f := lean.NewServer(framed.Limits{}), framed.NewServer()
	masterv1.RegisterMasterServiceServer(l, laterMaster{})
	f.Register(foreign.Lean, l)
	if both {
		ln = f.Split(ln)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	t.Cleanup(func() {
		s.Stop()
		f.Stop(context.Background())
		require.NoError(t, <-done)
	})
	return at
}

// TestNoCallReachesAMasterOfAnotherProtocol: each fails with both versions, and at the next master all is well again.
func TestNoCallReachesAMasterOfAnotherProtocol(t *testing.T) {
	if os.Getenv(overGRPC) != "" {
		t.Skip("connections of gRPC are not asked")
	}
	at := serveLater(t, true)
	c := dial(t, at, client.Options{Version: "0.1"})
	_, err := c.Exist(t.Context(), anonymous, []string{"k"})
	assert.ErrorIs(t, err, errs.InvalidVersion.Err())
	for _, part := range []string{at, `"9.9"`, "3.5", `"0.1"`, "2.0", "too far apart"} {
		assert.ErrorContains(t, err, part)
	}
	_, err = c.Pull(t.Context(), model.ClientID{}, 0, nil)
	assert.ErrorIs(t, err, errs.InvalidVersion.Err())
	assert.Equal(t, errs.ClassPermanent, errs.ClassOf(err), "a store that starts does not wait for another master")

	both := dial(t, at+","+serve(t, newTableMaster(), server.Options{}), client.Options{Version: "0.1"})
	_, err = both.Exist(t.Context(), anonymous, []string{"k"})
	assert.NoError(t, err, "the next one of a list is taken")
}

// TestCallersOfAnotherProtocol: a master turns them away, also while it serves no calls, and lets those pass that add
// something.
func TestCallersOfAnotherProtocol(t *testing.T) {
	conn, err := grpc.NewClient(serve(t, newTableMaster(), server.Options{}), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	calls := masterv1.NewMasterServiceClient(conn)
	_, err = calls.Ready(t.Context(), &masterv1.ReadyRequest{Version: "9.9", Protocol: &masterv1.Protocol{Major: 3, Minor: 5}})
	assert.Equal(t, codes.Unimplemented, status.Code(err))
	assert.ErrorContains(t, err, `this master speaks protocol 2.0, the other side (version "9.9") 3.5`)
	_, err = calls.Ready(t.Context(), &masterv1.ReadyRequest{Protocol: &masterv1.Protocol{Major: 2, Minor: 7}})
	assert.NoError(t, err)
	_, err = calls.Ready(t.Context(), &masterv1.ReadyRequest{})
	assert.NoError(t, err, "a tool need not say what it speaks")
}

func TestMasterOfAnotherProtocolOverGRPC(t *testing.T) {
	at := serveLater(t, false)
	c := dial(t, at, client.Options{Version: "0.1"})

	_, err := c.Ready(t.Context())
	assert.ErrorIs(t, err, errs.InvalidVersion.Err())
	for _, part := range []string{at, `"9.9"`, "3.5", `"0.1"`, "2.0"} {
		assert.ErrorContains(t, err, part)
	}
	_, err = c.Exist(t.Context(), anonymous, []string{"k"})
	assert.ErrorIs(t, err, errs.NotSupported.Err(), "over gRPC, whose connections are not asked")
}
