package lean

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"
)

// named serves an echo that answers Ready with its name.
func named(t *testing.T, name string) (addr string) {
	addr, _ = serve(t, &echo{ready: func(context.Context) (string, error) { return name, nil }}, Limits{})
	return addr
}

func requireReady(t *testing.T, rpc masterv1.MasterServiceClient, name string) {
	t.Helper()
	got, err := rpc.Ready(within(t), &masterv1.ReadyRequest{})
	require.NoError(t, err)
	require.Equal(t, name, got.GetVersion())
}

// TestARedirectEndsTheCallsInFlight: they fail at once, whoever reads the connection, and the next call goes to the
// new server.
func TestARedirectEndsTheCallsInFlight(t *testing.T) {
	const calls = 5
	begun, given := make(chan struct{}, calls), make(chan struct{}, calls)
	old, _ := serve(t, &echo{ready: func(ctx context.Context) (string, error) {
		begun <- struct{}{}
		<-ctx.Done()
		given <- struct{}{}
		return "", ctx.Err()
	}}, Limits{})
	p := NewPool(old, 2, ClientOptions{})
	t.Cleanup(func() { assert.NoError(t, p.Close()) })
	rpc := masterv1.NewMasterServiceClient(p)
	var inFlight sync.WaitGroup
	for range calls {
		inFlight.Go(func() {
			_, err := rpc.Ready(within(t), &masterv1.ReadyRequest{})
			assert.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
			assert.ErrorContains(t, err, errMoved.Error())
		})
	}
	for range calls {
		<-begun
	}
	p.Redirect(nil, named(t, "new"))
	inFlight.Wait()
	requireReady(t, rpc, "new")
	for range calls {
		<-given // The old server notices as well.
	}
}

// TestARedirectEndsThePause: also that of an attempt in progress, whose callers go on at the new server.
func TestARedirectEndsThePause(t *testing.T) {
	dialled := make(chan string, 10)
	c, rpc := dial(t, "black hole", ClientOptions{RetryMin: time.Hour, RetryMax: time.Hour, ConnectTimeout: time.Hour, Dial: func(ctx context.Context, addr string) (net.Conn, error) {
		dialled <- addr
		switch addr {
		case "black hole":
			<-ctx.Done()
			return nil, ctx.Err()
		case "closed":
			return nil, errors.New("refused")
		}
		return DialTCP(ctx, addr)
	}})
	var waiting sync.WaitGroup
	waiting.Go(func() {
		_, err := rpc.Ready(within(t), &masterv1.ReadyRequest{})
		assert.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
	})
	require.Equal(t, "black hole", <-dialled)
	c.Redirect(nil, "closed")
	waiting.Wait()
	require.Equal(t, "closed", <-dialled)
	_, err := rpc.Ready(within(t), &masterv1.ReadyRequest{})
	require.ErrorContains(t, err, "refused")
	require.Empty(t, dialled, "it pauses")
	c.Redirect(nil, named(t, "new"))
	requireReady(t, rpc, "new")
}

// TestNowhere: without an address calls fail with the reason, and before the first redirect they wait.
func TestNowhere(t *testing.T) {
	c, rpc := dial(t, "", ClientOptions{})
	var waiting sync.WaitGroup
	waiting.Go(func() { requireReady(t, rpc, "first") })
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := rpc.Ready(short, &masterv1.ReadyRequest{})
	require.Equal(t, codes.DeadlineExceeded, status.Code(err))
	c.Redirect(nil, named(t, "first"))
	waiting.Wait()
	none := errors.New("no master leads")
	c.Redirect(none)
	_, err = rpc.Ready(within(t), &masterv1.ReadyRequest{})
	require.Equal(t, none, err)
	c.Redirect(nil, named(t, "second"))
	requireReady(t, rpc, "second")

	c, rpc = dial(t, "", ClientOptions{})
	waiting.Go(func() {
		_, err := rpc.Ready(within(t), &masterv1.ReadyRequest{})
		assert.Equal(t, codes.Canceled, status.Code(err), "%v", err)
	})
	require.NoError(t, c.Close())
	waiting.Wait()
}

// TestOneOfSeveral: an attempt tries each address once, and says which one it reached. A connection to the first
// address stays.
func TestOneOfSeveral(t *testing.T) {
	var reached []string
	var dials atomic.Int32
	c, rpc := dial(t, "", ClientOptions{RetryMin: time.Hour, RetryMax: time.Hour, Reached: func(addr string) { reached = append(reached, addr) },
		Dial: func(ctx context.Context, addr string) (net.Conn, error) {
			dials.Add(1)
			if addr == "a" || addr == "b" {
				return nil, errors.New(addr + " refuses")
			}
			return DialTCP(ctx, addr)
		}})
	c.Redirect(nil, "a", "b")
	for range 3 {
		_, err := rpc.Ready(within(t), &masterv1.ReadyRequest{})
		require.ErrorContains(t, err, "cannot connect to a, b: a refuses; b refuses")
		require.ErrorIs(t, err, ErrNotSent)
	}
	require.EqualValues(t, 2, dials.Load())
	addr := named(t, "c")
	c.Redirect(nil, "a", "b", addr)
	requireReady(t, rpc, "c")
	require.EqualValues(t, 5, dials.Load())
	c.Redirect(nil, addr, "a", "b")
	requireReady(t, rpc, "c")
	require.EqualValues(t, 5, dials.Load(), "the connection stays")
	require.NoError(t, c.Close())
	require.Equal(t, []string{addr}, reached)
}
