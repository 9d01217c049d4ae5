package rpc_test

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/api/rpc/client"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// laterMaster answers Ready with the next protocol and knows no other call.
type laterMaster struct {
	masterv1.UnimplementedMasterServiceServer
}

func (laterMaster) Ready(context.Context, *masterv1.ReadyRequest) (*masterv1.ReadyResponse, error) {
	return &masterv1.ReadyResponse{Version: "9.9", Protocol: &masterv1.Protocol{Major: 3, Minor: 5}}, nil
}

func TestMasterOfAnotherProtocol(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := grpc.NewServer()
	masterv1.RegisterMasterServiceServer(s, laterMaster{})
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	defer func() { s.Stop(); require.NoError(t, <-done) }()
	c := dial(t, ln.Addr().String(), client.Options{Version: "0.1"})

	_, err = c.Ready(t.Context())
	assert.ErrorIs(t, err, errs.InvalidVersion.Err())
	for _, part := range []string{ln.Addr().String(), `"9.9"`, "3.5", `"0.1"`, "2.0"} {
		assert.ErrorContains(t, err, part)
	}
	_, err = c.Exist(t.Context(), anonymous, []string{"k"})
	assert.ErrorIs(t, err, errs.InvalidVersion.Err(), "a call that the master does not know")
}
