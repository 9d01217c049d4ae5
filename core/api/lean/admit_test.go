package lean

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"
)

// TestAServerThatIsNotAdmitted: calls fail with the reason until they go elsewhere, and none reaches the server.
func TestAServerThatIsNotAdmitted(t *testing.T) {
	reason := errors.New("too old")
	first, second := named(t, "first"), named(t, "second")
	c, rpc := dial(t, first, ClientOptions{RetryMin: time.Hour, RetryMax: time.Hour, Admit: func(ctx context.Context, addr string, conn grpc.ClientConnInterface) error {
		got, err := masterv1.NewMasterServiceClient(conn).Ready(ctx, &masterv1.ReadyRequest{})
		if err == nil && got.GetVersion() == "first" {
			require.Equal(t, first, addr)
			return reason
		}
		return err
	}})
	for range 2 {
		_, err := rpc.Exist(within(t), &masterv1.ExistRequest{})
		require.ErrorIs(t, err, reason)
	}
	c.Redirect(nil, first, second)
	requireReady(t, rpc, "second")
}

// TestAConnectionThatEndsBeforeItIsAdmitted: the calls do not wait for one that lasts.
func TestAConnectionThatEndsBeforeItIsAdmitted(t *testing.T) {
	attempts := 0
	_, rpc := dial(t, named(t, "server"), ClientOptions{RetryMin: time.Hour, RetryMax: time.Hour, Admit: func(_ context.Context, _ string, conn grpc.ClientConnInterface) error {
		attempts++
		conn.(alone).end(errGone)
		return nil
	}})
	_, err := rpc.Exist(within(t), &masterv1.ExistRequest{})
	require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
	require.Equal(t, 1, attempts)
}
