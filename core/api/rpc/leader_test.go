package rpc_test

import (
	"context"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/rpc/client"
	"github.com/mooncake-go/mooncake/core/api/rpc/server"
	"github.com/mooncake-go/mooncake/core/ha"
	"github.com/mooncake-go/mooncake/core/ha/etcd"
	"github.com/mooncake-go/mooncake/core/internal/testkit/heldport"
	"github.com/mooncake-go/mooncake/core/metadata/storetest/etcdserver"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// leader answers Ready with its name, or with an error, and holds Exist until its caller is gone.
type leader struct {
	store.Master
	name   string
	err    error
	exists chan struct{}
}

func (l *leader) Ready(context.Context) (string, error) { return l.name, l.err }

func (l *leader) Exist(ctx context.Context, _ model.Caller, _ []model.Key) ([]model.Result[bool], error) {
	l.exists <- struct{}{}
	<-ctx.Done()
	return nil, ctx.Err()
}

const leaderBound = 30 * time.Second

func eventuallyReady(t *testing.T, c *client.Client, name string) {
	t.Helper()
	require.Eventually(t, func() bool { got, err := c.Ready(t.Context()); return err == nil && got == name }, leaderBound, time.Millisecond)
}

func eventuallyFails(t *testing.T, c *client.Client, code errs.Code, text string) {
	t.Helper()
	require.Eventually(t, func() bool { _, err := c.Ready(t.Context()); return errs.Is(err, code) }, leaderBound, time.Millisecond)
	_, err := c.Ready(t.Context())
	require.ErrorContains(t, err, text)
	require.ErrorIs(t, err, store.ErrNoLeader)
}

// TestADirectoryIsFollowed: the calls in flight end with the leader, later ones go to the next one, and
// the last one known stays while etcd is away.
func TestADirectoryIsFollowed(t *testing.T) {
	srv := etcdserver.New(t)
	b, err := etcd.New("etcd://"+srv.Address, "blue", etcd.Options{})
	require.NoError(t, err)
	t.Cleanup(b.Close)
	lead := func(m *leader) ha.Leadership {
		l, err := b.Acquire(t.Context(), serve(t, m, server.Options{}))
		require.NoError(t, err)
		return l
	}
	c := dial(t, "etcd://"+srv.Address, client.Options{Cluster: "blue"})
	eventuallyFails(t, c, errs.UnavailableInCurrentStatus, "no master leads cluster blue")
	moves := make(chan struct{}, 100)
	c.OnMove(func() { moves <- struct{}{} })

	first := &leader{name: "first", exists: make(chan struct{}, 1)}
	l := lead(first)
	<-moves
	eventuallyReady(t, c, "first")
	var inFlight sync.WaitGroup
	inFlight.Go(func() {
		_, err := c.Exist(t.Context(), anonymous, []model.Key{"k"})
		assert.Equal(t, errs.RPCFail, errs.CodeOf(err), "%v", err)
	})
	<-first.exists
	require.NoError(t, l.Resign(t.Context()))
	inFlight.Wait()
	<-moves
	eventuallyFails(t, c, errs.UnavailableInCurrentStatus, "no master leads cluster blue")
	l = lead(&leader{name: "second"})
	<-moves
	eventuallyReady(t, c, "second")

	srv.Stop()
	for range 100 {
		eventuallyReady(t, c, "second")
	}
	late := dial(t, "etcd://"+srv.Address, client.Options{Cluster: "blue"})
	eventuallyFails(t, late, errs.EtcdOperationError, srv.Address)
	srv.Start(t)
	require.Eventually(t, func() bool { return l.Resign(t.Context()) == nil }, leaderBound, 10*time.Millisecond)
	l = lead(&leader{name: "third"})
	eventuallyReady(t, c, "third")
	eventuallyReady(t, late, "third")
	require.NoError(t, l.Resign(t.Context()))
}

// TestAListOfMasters: the one whose port is open is found, and again after another has taken over; one that
// answers only that it does not lead is left.
func TestAListOfMasters(t *testing.T) {
	a, b := heldport.Address(t), heldport.Address(t)
	at := func(addr string, m *leader) (stop func()) {
		ln, err := net.Listen("tcp", addr)
		require.NoError(t, err)
		return start(t, m, server.Options{}, ln)
	}
	c := dial(t, a+","+b, client.Options{MaxRetryDelay: 10 * time.Millisecond})
	_, err := c.Ready(t.Context())
	require.Equal(t, errs.RPCFail, errs.CodeOf(err), "%v", err)
	moves := make(chan struct{}, 1000)
	c.OnMove(func() { moves <- struct{}{} })
	stop := at(b, &leader{name: "b"})
	eventuallyReady(t, c, "b")
	if os.Getenv(overGRPC) == "" { // Over gRPC alone no component learns of it; it is for peers that have no sessions.
		<-moves
	}
	stop()
	stop = at(a, &leader{name: "a"})
	eventuallyReady(t, c, "a")
	stop()
	lapsed := errs.New(errs.UnavailableInCurrentStatus, "", "the leadership has lapsed")
	at(a, &leader{err: lapsed})
	at(b, &leader{name: "b again"})
	eventuallyReady(t, c, "b again")
	require.LessOrEqual(t, len(moves), 10)
}

func TestAddressesThatCannotBe(t *testing.T) {
	for addr, want := range map[string]errs.Code{
		"redis://": errs.InvalidParams, "k8s://a/b": errs.UnavailableInCurrentMode, "http://a:1": errs.InvalidParams, "a:1,b": errs.InvalidParams,
	} {
		_, err := client.Dial(addr, client.Options{})
		require.Equal(t, want, errs.CodeOf(err), "%s: %v", addr, err)
	}
}
