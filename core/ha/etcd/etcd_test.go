package etcd_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/mooncake-go/mooncake/core/ha"
	"github.com/mooncake-go/mooncake/core/ha/etcd"
	"github.com/mooncake-go/mooncake/core/ha/hatest"
	"github.com/mooncake-go/mooncake/core/internal/boottime"
	"github.com/mooncake-go/mooncake/core/metadata/storetest/etcdserver"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestMain(m *testing.M) {
	etcdserver.Main()
	goleak.VerifyTestMain(m)
}

func open(t testing.TB, address, cluster string) *etcd.Backend {
	b, err := etcd.New("etcd://"+address, cluster, etcd.Options{})
	require.NoError(t, err)
	t.Cleanup(b.Close)
	return b
}

func raw(t testing.TB, address string) *clientv3.Client {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestConformance(t *testing.T) {
	srv := etcdserver.New(t)
	var clusters atomic.Int32
	hatest.Run(t, func(t *testing.T) func() ha.Backend {
		cluster := fmt.Sprint("c", clusters.Add(1))
		return func() ha.Backend { return open(t, srv.Address, cluster) }
	})
}

// TestUpstreamReadsTheKey: the key, its value, its lease and its revision are those that upstream's clients read.
func TestUpstreamReadsTheKey(t *testing.T) {
	srv := etcdserver.New(t)
	l, err := open(t, srv.Address, "mooncake_cluster").Acquire(t.Context(), "10.0.0.1:50051")
	require.NoError(t, err)
	r, err := raw(t, srv.Address).Get(t.Context(), "mooncake-store/mooncake_cluster/master_view")
	require.NoError(t, err)
	require.Len(t, r.Kvs, 1)
	require.Equal(t, "10.0.0.1:50051", string(r.Kvs[0].Value))
	require.NotZero(t, r.Kvs[0].Lease)
	require.Equal(t, uint64(r.Kvs[0].CreateRevision), l.View().Version)
	require.False(t, l.View().Foreign)
	require.NoError(t, l.Resign(t.Context()))
}

// TestAForeignLeader: a leader of upstream's is followed, and told from one of this program.
func TestAForeignLeader(t *testing.T) {
	srv := etcdserver.New(t)
	b := open(t, srv.Address, "c")
	l, err := b.Acquire(t.Context(), "10.0.0.1:50051")
	require.NoError(t, err)
	require.NoError(t, l.Resign(t.Context()))
	put, err := raw(t, srv.Address).Put(t.Context(), "mooncake-store/c/master_view", "10.0.0.9:50051")
	require.NoError(t, err)
	v, err := b.View(t.Context())
	require.NoError(t, err)
	require.Equal(t, ha.View{Address: "10.0.0.9:50051", Version: uint64(put.Header.Revision), Foreign: true}, v)
}

// TestAnOutageIsNoEnd: while etcd is away the leadership lapses, and goes on with the same view when etcd is back.
func TestAnOutageIsNoEnd(t *testing.T) {
	srv := etcdserver.NewProcess(t)
	b := open(t, srv.Address, "c")
	l, err := b.Acquire(t.Context(), "10.0.0.1:50051")
	require.NoError(t, err)
	srv.Kill()
	require.Eventually(t, func() bool { return l.Until() < boottime.Now() }, 20*time.Second, 10*time.Millisecond)
	_, err = b.View(t.Context())
	require.Equal(t, errs.EtcdOperationError, errs.CodeOf(err), "%v", err)
	srv.Start(t)
	require.Eventually(t, func() bool { return l.Until() > boottime.Now() }, 20*time.Second, 10*time.Millisecond)
	v, err := b.View(t.Context())
	require.NoError(t, err)
	require.Equal(t, l.View(), v)
	require.NoError(t, l.Resign(t.Context()))
}

// TestAHungEtcd: calls to an etcd that does not answer end, and the leadership lapses. When etcd goes on, the
// leadership does too, or it is lost: nothing hangs.
func TestAHungEtcd(t *testing.T) {
	srv := etcdserver.NewProcess(t)
	b := open(t, srv.Address, "c")
	l, err := b.Acquire(t.Context(), "10.0.0.1:50051")
	require.NoError(t, err)
	srv.Signal(t, syscall.SIGSTOP)
	require.Eventually(t, func() bool { return l.Until() < boottime.Now() }, 20*time.Second, 10*time.Millisecond)
	_, err = b.View(t.Context())
	require.Equal(t, errs.EtcdOperationError, errs.CodeOf(err), "%v", err)
	srv.Signal(t, syscall.SIGCONT)
	require.Eventually(t, func() bool {
		select {
		case <-l.Lost():
			return true
		default:
			return l.Until() > boottime.Now()
		}
	}, 20*time.Second, 10*time.Millisecond)
	require.NoError(t, l.Resign(t.Context()))
}

// TestALeaseThatEnds: a process that did not run for longer than its lease has lost the leadership.
func TestALeaseThatEnds(t *testing.T) {
	srv := etcdserver.New(t)
	l, err := open(t, srv.Address, "c").Acquire(t.Context(), "10.0.0.1:50051")
	require.NoError(t, err)
	c := raw(t, srv.Address)
	r, err := c.Get(t.Context(), "mooncake-store/c/master_view")
	require.NoError(t, err)
	_, err = c.Revoke(t.Context(), clientv3.LeaseID(r.Kvs[0].Lease))
	require.NoError(t, err)
	select {
	case <-l.Lost():
	case <-time.After(20 * time.Second):
		require.Fail(t, "the leadership is not lost")
	}
	require.NoError(t, l.Resign(t.Context()))
}

// TestEtcdIsDisposable: without the epochs that etcd had, those of the clock are higher still.
func TestEtcdIsDisposable(t *testing.T) {
	srv := etcdserver.New(t)
	b := open(t, srv.Address, "c")
	old, err := b.Acquire(t.Context(), "10.0.0.1:50051")
	require.NoError(t, err)
	require.NoError(t, old.Resign(t.Context()))
	_, err = raw(t, srv.Address).Delete(t.Context(), "mooncake", clientv3.WithPrefix())
	require.NoError(t, err)
	l, err := b.Acquire(t.Context(), "10.0.0.1:50051")
	require.NoError(t, err)
	require.Greater(t, l.Epoch(), old.Epoch())
	require.Zero(t, l.Previous())
	require.NoError(t, l.Resign(t.Context()))
}

// TestAnEtcdBegunAnew: its revisions are lower than those that watchers have seen, and they see the next leader.
func TestAnEtcdBegunAnew(t *testing.T) {
	srv := etcdserver.NewProcess(t)
	c := raw(t, srv.Address)
	for range 50 {
		_, err := c.Put(t.Context(), "elsewhere", "")
		require.NoError(t, err)
	}
	l, err := open(t, srv.Address, "c").Acquire(t.Context(), "10.0.0.1:50051")
	require.NoError(t, err)
	views := make(chan ha.View, 64)
	var watching sync.WaitGroup
	watcher := open(t, srv.Address, "c")
	watching.Go(func() { watcher.Watch(t.Context(), func(v ha.View) { views <- v }) })
	require.Equal(t, l.View(), <-views)
	srv.Kill()
	srv.Wipe(t)
	srv.Start(t)
	next, err := open(t, srv.Address, "c").Acquire(t.Context(), "10.0.0.2:50051")
	require.NoError(t, err)
	require.Less(t, next.View().Version, l.View().Version)
	limit := time.After(30 * time.Second)
	for v := (ha.View{}); v != next.View(); {
		select {
		case v = <-views:
		case <-limit:
			require.Fail(t, "the watcher does not see the next leader")
		}
	}
	select {
	case <-l.Lost():
	case <-limit:
		require.Fail(t, "the old leader does not see that it is none")
	}
	require.NoError(t, l.Resign(t.Context()))
	require.NoError(t, next.Resign(t.Context()))
	watcher.Close()
	watching.Wait()
}

func TestBadEndpoints(t *testing.T) {
	_, err := etcd.New("etcd://", "c", etcd.Options{})
	require.Equal(t, errs.InvalidParams, errs.CodeOf(err), "%v", err)
}

// TestNoServer: a call ends within its time and says what failed.
func TestNoServer(t *testing.T) {
	b, err := etcd.New("127.0.0.1:1", "c", etcd.Options{})
	require.NoError(t, err)
	defer b.Close()
	_, err = b.Acquire(context.Background(), "10.0.0.1:50051")
	require.Equal(t, errs.EtcdOperationError, errs.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "is etcd running there?")
}
