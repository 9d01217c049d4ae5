package staging

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"

	nodev1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/node/v1"

	"github.com/mooncake-go/mooncake/core/api/rpc/convert"
	"github.com/mooncake-go/mooncake/core/internal/testkit/heldport"
	"github.com/mooncake-go/mooncake/core/internal/testkit/stager"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// counted counts the connections that a listener took.
type counted struct {
	net.Listener
	taken atomic.Int32
}

func (c *counted) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.taken.Add(1)
	}
	return conn, err
}

// serve serves a store.Stager at an address until the test ends.
func serve(t *testing.T, address string, s store.Stager) *counted {
	t.Helper()
	ln, err := net.Listen("tcp", address)
	require.NoError(t, err)
	c, srv := &counted{Listener: ln}, NewServer(s, nil, nil)
	var done sync.WaitGroup
	done.Go(func() { assert.NoError(t, srv.Serve(c)) })
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		srv.Stop(ctx)
		done.Wait()
	})
	return c
}

func newClient(t *testing.T, o Options) *Client {
	c := NewClient(o)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

var oneRead = []model.StageRead{{Segment: model.UUID{Lo: 5}, Replica: 64, Size: 9, Offset: 2, Length: 7}}

// TestStageAndRelease: calls arrive with their reads and the reader's deadline, answers with parts and errors.
func TestStageAndRelease(t *testing.T) {
	var released atomic.Uint64
	at := serve(t, "127.0.0.1:0", stager.Funcs{
		OnStage: func(ctx context.Context, reads []model.StageRead) (model.Staging, error) {
			limit, bounded := ctx.Deadline()
			assert.True(t, bounded)
			assert.Less(t, time.Until(limit), 8*time.Second)
			assert.Equal(t, []model.StageRead{oneRead[0], {Replica: 3, Size: 1, Length: 1}}, reads)
			s, _ := stager.Echo(ctx, reads)
			s.ID, s.Parts[1] = 1<<60, model.Result[model.Part]{Err: errs.New(errs.UnavailableInCurrentStatus, "tier", "busy")}
			return s, nil
		},
		OnRelease: func(id uint64) error { released.Store(id); return nil },
	}).Addr().String()
	c := newClient(t, Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	got, err := c.Stage(ctx, at, []model.StageRead{oneRead[0], {Replica: 3, Size: 1, Length: 1}})
	require.NoError(t, err)
	require.Equal(t, time.Second, got.TTL)
	require.Equal(t, model.Part{Endpoint: "n:1", Address: 64, Size: 7}, got.Parts[0].Value)
	require.Equal(t, errs.UnavailableInCurrentStatus, errs.CodeOf(got.Parts[1].Err))
	require.NoError(t, c.Release(ctx, at, got.ID))
	require.Equal(t, uint64(1<<60), released.Load())
}

// TestCallsFailAlone: an error of a call keeps its code, and a call that panics or has the wrong number of answers is Internal.
func TestCallsFailAlone(t *testing.T) {
	var answer func() (model.Staging, error)
	at := serve(t, "127.0.0.1:0", stager.Funcs{
		OnStage:   func(context.Context, []model.StageRead) (model.Staging, error) { return answer() },
		OnRelease: func(uint64) error { return nil },
	}).Addr().String()
	c := newClient(t, Options{})
	for want, f := range map[errs.Code]func() (model.Staging, error){
		errs.UnavailableInCurrentStatus: func() (model.Staging, error) {
			return model.Staging{}, errs.New(errs.UnavailableInCurrentStatus, "tier", "busy")
		},
		errs.Internal: func() (model.Staging, error) { panic("a bug") },
		errs.OK:       func() (model.Staging, error) { return stager.Echo(t.Context(), oneRead) },
	} {
		answer = f
		_, err := c.Stage(t.Context(), at, oneRead)
		require.Equal(t, want, errs.CodeOf(err))
	}
	answer = func() (model.Staging, error) { return model.Staging{ID: 1}, nil }
	_, err := c.Stage(t.Context(), at, oneRead)
	require.Equal(t, errs.Internal, errs.CodeOf(err))
}

// TestServerRefusesHostileCalls: what a client of another make sends ends in an error of that call.
func TestServerRefusesHostileCalls(t *testing.T) {
	at := serve(t, "127.0.0.1:0", stager.Funcs{}).Addr().String()
	conn, err := grpc.NewClient(at, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	raw := nodev1.NewTierServiceClient(conn)
	for want, m := range map[errs.Code]*nodev1.StageRequest{
		errs.InvalidParams:  convert.ToStage(slices.Repeat(oneRead, 1025)),
		errs.BufferOverflow: {Replicas: make([]uint64, 1<<16)},
	} {
		_, err = raw.Stage(t.Context(), m)
		require.Error(t, err)
		failed, _ := callError("op", err)
		require.Equal(t, want, errs.CodeOf(failed))
	}
	_, err = raw.Stage(t.Context(), convert.ToStage(oneRead))
	require.NoError(t, err)
	_, err = newClient(t, Options{}).Stage(t.Context(), at, slices.Repeat(oneRead, 1025))
	require.Equal(t, errs.InvalidParams, errs.CodeOf(err))
}

// TestDeadNodesAreBackedOff: after a call that no node answered, calls to its endpoint fail at once, for a time that doubles;
// one that it answers ends that.
func TestDeadNodesAreBackedOff(t *testing.T) {
	at := heldport.Address(t)
	c := newClient(t, Options{})
	now := time.Now()
	c.now = func() time.Time { return now }
	fails := func() error {
		t.Helper()
		_, err := c.Stage(t.Context(), at, oneRead)
		require.Equal(t, errs.RPCFail, errs.CodeOf(err))
		return err
	}
	require.NotContains(t, fails().Error(), "not called again")
	require.Contains(t, fails().Error(), "not called again")
	now = now.Add(minBackoff)
	require.NotContains(t, fails().Error(), "not called again")
	now = now.Add(minBackoff)
	require.Contains(t, fails().Error(), "not called again")
	serve(t, at, stager.Funcs{})
	now = now.Add(minBackoff)
	require.Eventually(t, func() bool { // The connection has a pause of its own.
		now = now.Add(maxBackoff)
		_, err := c.Stage(t.Context(), at, oneRead)
		return err == nil
	}, 30*time.Second, 50*time.Millisecond)
	require.Zero(t, c.nodes[at].backoff)
}

// TestSilentNodesAreBackedOff: a node that had a second to answer is backed off, one that had less is not.
func TestSilentNodesAreBackedOff(t *testing.T) {
	end := make(chan struct{})
	at := serve(t, "127.0.0.1:0", stager.Funcs{OnStage: func(context.Context, []model.StageRead) (model.Staging, error) {
		<-end
		return model.Staging{}, nil
	}}).Addr().String()
	t.Cleanup(func() { close(end) })
	c := newClient(t, Options{Timeout: 200 * time.Millisecond})
	var now atomic.Int64
	c.now = func() time.Time { return time.Unix(0, now.Load()) }
	stage := func() {
		_, err := c.Stage(t.Context(), at, oneRead)
		require.ErrorContains(t, err, "RPC_")
	}
	stage()
	require.Zero(t, c.nodes[at].backoff)
	c.now = func() time.Time { return time.Unix(0, now.Add(int64(blameAfter))) }
	stage()
	require.Equal(t, minBackoff, c.nodes[at].backoff)
}

// TestConnectionsAreBounded: a client ends a connection that it does not use before it opens one more than the bound, and
// refuses the call if all are in use.
func TestConnectionsAreBounded(t *testing.T) {
	release := make(chan struct{})
	entered := make(chan struct{}, 1)
	a, b := serve(t, "127.0.0.1:0", stager.Funcs{}), serve(t, "127.0.0.1:0", stager.Funcs{OnStage: func(ctx context.Context, r []model.StageRead) (model.Staging, error) {
		entered <- struct{}{}
		<-release
		return stager.Echo(ctx, r)
	}})
	c := newClient(t, Options{Connections: 1})
	_, err := c.Stage(t.Context(), a.Addr().String(), oneRead)
	require.NoError(t, err)
	var call sync.WaitGroup
	call.Go(func() {
		_, err := c.Stage(t.Context(), b.Addr().String(), oneRead)
		assert.NoError(t, err)
	})
	<-entered
	_, err = c.Stage(t.Context(), a.Addr().String(), oneRead)
	require.Equal(t, errs.UnavailableInCurrentStatus, errs.CodeOf(err))
	close(release)
	call.Wait()
	for range 2 {
		_, err = c.Stage(t.Context(), a.Addr().String(), oneRead)
		require.NoError(t, err)
	}
	require.Equal(t, int32(2), a.taken.Load())
	require.NoError(t, c.Close())
	_, err = c.Stage(t.Context(), a.Addr().String(), oneRead)
	require.ErrorIs(t, err, store.ErrClosed)
}

// TestLeavingConnections: a connection that leaves closes at once without a call in flight, and else after its last call,
// while further calls take another one. Close finds each connection open, and ends those that leave.
func TestLeavingConnections(t *testing.T) {
	var blocks atomic.Bool
	entered, release := make(chan struct{}), make(chan struct{})
	at := serve(t, "127.0.0.1:0", stager.Funcs{OnStage: func(ctx context.Context, r []model.StageRead) (model.Staging, error) {
		if blocks.Swap(false) {
			entered <- struct{}{}
			<-release
		}
		return stager.Echo(ctx, r)
	}}).Addr().String()
	c := newClient(t, Options{})
	stage := func() error { _, err := c.Stage(t.Context(), at, oneRead); return err }
	leave := func() *node {
		n := c.nodes[at]
		c.leave(at, n)
		require.Empty(t, c.nodes)
		return n
	}
	require.NoError(t, stage())
	require.Equal(t, connectivity.Shutdown, leave().conn.GetState())

	var inFlight sync.WaitGroup
	blocks.Store(true)
	inFlight.Go(func() { assert.NoError(t, stage()) })
	<-entered
	busy := leave()
	require.NoError(t, stage())
	require.NotEqual(t, connectivity.Shutdown, busy.conn.GetState())
	close(release)
	inFlight.Wait()
	require.Equal(t, connectivity.Shutdown, busy.conn.GetState())
	require.Len(t, c.open, 1)
	require.NoError(t, c.Close())
}
