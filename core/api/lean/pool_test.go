package lean

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"
)

// pooled is a pool of three that counts the connections that it made.
func pooled(t *testing.T, e *echo) (p *Pool, rpc masterv1.MasterServiceClient, made *atomic.Int32) {
	t.Helper()
	addr, _ := serve(t, e, Limits{})
	made = new(atomic.Int32)
	p = NewPool(addr, 3, ClientOptions{Dial: func(ctx context.Context, addr string) (net.Conn, error) {
		made.Add(1)
		return DialTCP(ctx, addr)
	}})
	t.Cleanup(func() { assert.NoError(t, p.Close()) })
	return p, masterv1.NewMasterServiceClient(p), made
}

// TestAPoolTakesWhatIsFree: one connection for calls one after the other, and one for each of
// several at a time, as long as there are any.
func TestAPoolTakesWhatIsFree(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	p, rpc, made := pooled(t, &echo{ready: func(context.Context) (string, error) {
		begun <- struct{}{}
		<-release
		return "", nil
	}})
	for range 10 {
		_, err := rpc.Exist(within(t), &masterv1.ExistRequest{})
		require.NoError(t, err)
	}
	require.EqualValues(t, 1, made.Load())

	var calls sync.WaitGroup
	for i := range 7 {
		calls.Go(func() {
			_, err := rpc.Ready(within(t), &masterv1.ReadyRequest{})
			assert.NoError(t, err)
		})
		<-begun
		require.EqualValues(t, min(i+1, 3), made.Load())
	}
	for i, want := range []int32{3, 2, 2} {
		require.Equal(t, want, p.calls[i].Load(), "the rest is spread evenly")
	}
	close(release)
	calls.Wait()
	for i := range p.calls {
		require.Zero(t, p.calls[i].Load())
	}
	_, err := rpc.Exist(within(t), &masterv1.ExistRequest{})
	require.NoError(t, err)
	require.EqualValues(t, 3, made.Load())
}

// TestAPoolThatIsClosed: a closed pool fails calls, those in flight as well.
func TestAPoolThatIsClosed(t *testing.T) {
	begun, release := make(chan struct{}, 3), make(chan struct{})
	p, rpc, _ := pooled(t, &echo{ready: func(ctx context.Context) (string, error) {
		begun <- struct{}{}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return "", nil
	}})
	defer close(release)
	var calls sync.WaitGroup
	for range 3 {
		calls.Go(func() {
			_, err := rpc.Ready(within(t), &masterv1.ReadyRequest{})
			assert.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
		})
		<-begun
	}
	require.NoError(t, p.Close())
	calls.Wait()
	_, err := rpc.Exist(within(t), &masterv1.ExistRequest{})
	require.Equal(t, codes.Canceled, status.Code(err), "%v", err)
	require.NoError(t, p.Close())
}

// TestAPoolOfNothing has one connection.
func TestAPoolOfNothing(t *testing.T) {
	require.Len(t, NewPool("127.0.0.1:1", 0, ClientOptions{}).clients, 1)
}
