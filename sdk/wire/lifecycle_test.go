package wire

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	pluginv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/plugin/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCallsHaveABound(t *testing.T) {
	ctx, cancel := Bound(context.Background())
	defer cancel()
	_, ok := ctx.Deadline()
	assert.True(t, ok)
}

func TestInFlightCallsAreLimited(t *testing.T) {
	c := NewCaller(ClientOptions{ID: plugin.ID{Kind: plugin.KindEvict, Name: "x"}, Timeout: 1})
	for range maxInFlight {
		require.NoError(t, c.acquire(t.Context()))
	}
	f := func(context.Context, *int, ...grpc.CallOption) (*int, error) { return new(int), nil }
	_, err := Call(t.Context(), c, "record", f, new(int))
	assert.ErrorIs(t, err, errs.RPCTimeout.Err())
}

// Either side may be first to notice that a call's time is over.
func TestWhoeverEndsACallItsTimeIsNamed(t *testing.T) {
	bare := status.Error(codes.DeadlineExceeded, "stream terminated by RST_STREAM with error code: CANCEL")
	c := NewCaller(ClientOptions{ID: plugin.ID{Kind: plugin.KindEvict, Name: "x"}, Timeout: time.Hour})
	f := func(context.Context, *int, ...grpc.CallOption) (*int, error) { return nil, bare }
	_, err := Call(t.Context(), c, "propose", f, new(int))
	assert.ErrorIs(t, err, errs.RPCTimeout.Err())
	assert.ErrorContains(t, err, "evict/x: propose")
	assert.ErrorContains(t, err, "did not answer within 1h0m0s")
}

// liar answers Describe with what is no manifest.
type liar struct {
	pluginv1.LifecycleServiceClient
	text string
}

func (l liar) Describe(context.Context, *pluginv1.DescribeRequest, ...grpc.CallOption) (*pluginv1.DescribeResponse, error) {
	return &pluginv1.DescribeResponse{ManifestJson: []byte(l.text)}, nil
}

func TestDescribeTrustsNothing(t *testing.T) {
	for _, text := range []string{"", "{", `{"mooncake_plugin_manifest":2}`, `{"mooncake_plugin_manifest":1,"kind":"evict"}`} {
		l := &Lifecycle{id: "evict/liar", rpc: liar{text: text}}
		_, err := l.Describe(t.Context())
		assert.ErrorIs(t, err, errs.InvalidParams.Err(), text)
	}
}
