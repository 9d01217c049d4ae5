package store_test

import (
	"bytes"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/rpc/server"
	"github.com/mooncake-go/mooncake/core/internal/testkit/heldport"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/node"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// serve answers gRPC at an address until it is stopped, as a process that is killed: what is
// in flight ends without an answer.
func serve(t testing.TB, m store.Master, addr string) (at string, kill func()) {
	ln, err := net.Listen("tcp", addr)
	require.NoError(t, err)
	srv := server.New(m, server.Options{})
	var wg sync.WaitGroup
	wg.Go(func() { _ = srv.Serve(ln) })
	kill = sync.OnceFunc(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		srv.Stop(ctx)
		wg.Wait()
	})
	t.Cleanup(kill)
	return ln.Addr().String(), kill
}

// TestMasterKilledAndRestarted is the whole way over gRPC and TCP: while the master is gone
// every call fails with RPCFail, and at once when that is known; when it is back, the node attaches
// by itself, and what the pool held is there again.
func TestMasterKilledAndRestarted(t *testing.T) {
	c := newCluster(t)
	addr, kill := serve(t, c.master, heldport.Address(t))
	c.addr = addr
	n := c.member(memberOptions{segments: []uint64{segment}})
	r := c.member(memberOptions{})
	value := content("k", 300_000)
	require.NoError(t, r.Put(t.Context(), "k", value, one))
	require.NoError(t, r.Put(t.Context(), "after", value, one), "its space is known to the ledger, and so is the end of the put before")
	kill()
	c.kill()
	require.Eventually(t, func() bool {
		_, err := r.Get(t.Context(), "k")
		require.Equal(t, errs.RPCFail, errs.CodeOf(err), "%v", err)
		return r.Health().Down
	}, 30*time.Second, time.Millisecond)
	calls := r.rpcs(t)
	for range 1000 {
		require.Equal(t, errs.RPCFail, errs.CodeOf(r.Put(t.Context(), "l", value, one)))
	}
	require.Less(t, r.rpcs(t)-calls, 200, "the master is not asked for each of them")

	c.boot()
	serve(t, c.master, addr)
	require.Eventually(t, func() bool { return !r.Health().Down && n.node.Mounted() }, 30*time.Second, 5*time.Millisecond)
	// The master serves what lies there once the node has pulled from it.
	require.Eventually(t, func() bool { got, err := r.Get(t.Context(), "k"); return err == nil && bytes.Equal(value, got) }, 30*time.Second, 5*time.Millisecond)
	require.NoError(t, r.Put(t.Context(), "new", value, one))
	got, err := r.Get(t.Context(), "new")
	require.NoError(t, err)
	require.Equal(t, value, got)
}

// TestPutsEndAtTheNextMaster: a put whose master goes away before it has ended ends at the next one, which
// has it from the ledger.
func TestPutsEndAtTheNextMaster(t *testing.T) {
	value := content("k", 300_000)
	for name, put := range map[string]func(ctx context.Context, r *member) error{
		"put": func(ctx context.Context, r *member) error { return r.Put(ctx, "k", value, one) },
		"batch": func(ctx context.Context, r *member) error {
			return r.BatchPut(ctx, []string{"k"}, [][]byte{value}, one)[0]
		},
		"layers": func(ctx context.Context, r *member) error {
			if err := r.StartPuts(ctx, []string{"k"}, []uint64{uint64(len(value))}, one, nil)[0]; err != nil {
				return err
			}
			if err := r.PutRanges(ctx, []store.Ranges{write("k", 0, value)})[0].Err; err != nil {
				return err
			}
			return r.EndPuts(ctx, []string{"k"})[0]
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.member(memberOptions{segments: []uint64{segment}})
			r := c.member(memberOptions{})
			ending := make(chan struct{})
			var ends atomic.Int32
			c.master.setHook(func(k call) error {
				if k.name == "PutEnd" && ends.Add(1) == 1 {
					close(ending)
					return errDown
				}
				return nil
			})
			var wg sync.WaitGroup
			wg.Go(func() { assert.NoError(t, put(t.Context(), r)) })
			<-ending
			c.kill()
			c.boot()
			wg.Wait()
			require.Greater(t, ends.Load(), int32(1))
			require.Eventually(t, func() bool { got, err := r.Get(t.Context(), "k"); return err == nil && bytes.Equal(value, got) }, 30*time.Second, 5*time.Millisecond)
		})
	}
}

// TestAPutEndsBeforeItsMasterKnowsIt: a put that was open when another master came is ended again until that one
// has adopted it, although no call was lost.
func TestAPutEndsBeforeItsMasterKnowsIt(t *testing.T) {
	c := newCluster(t)
	c.member(memberOptions{segments: []uint64{segment}})
	r := c.member(memberOptions{})
	value := content("k", 300_000)
	require.NoError(t, r.StartPuts(t.Context(), []string{"k"}, []uint64{uint64(len(value))}, one, nil)[0])
	require.NoError(t, r.PutRanges(t.Context(), []store.Ranges{write("k", 0, value)})[0].Err)
	adopt := make(chan struct{})
	release := sync.OnceFunc(func() { close(adopt) })
	defer release()
	var ends atomic.Int32
	c.master.setHook(func(k call) error {
		switch {
		case k.name == "Attach":
			<-adopt
		case k.name == "PutEnd" && ends.Add(1) == 2:
			release()
		}
		return nil
	})
	began := time.Now()
	c.kill()
	c.boot()
	require.Eventually(t, func() bool { return r.session.MasterSince().After(began) && !r.Health().Down }, 30*time.Second, time.Millisecond)
	require.NoError(t, r.EndPuts(t.Context(), []string{"k"})[0])
	require.Eventually(t, func() bool { got, err := r.Get(t.Context(), "k"); return err == nil && bytes.Equal(value, got) }, 30*time.Second, 5*time.Millisecond)
}

// rpcs is how many calls of any kind the member made.
func (m *member) rpcs(t testing.TB) int {
	all, err := m.metrics.Gather()
	require.NoError(t, err)
	n := 0
	for _, f := range all {
		if f.GetName() == "mooncake_client_rpc_count" {
			for _, x := range f.GetMetric() {
				n += int(x.GetCounter().GetValue())
			}
		}
	}
	return n
}

// TestTasksOverTCP has the real master give a copy and a move to the node that holds the
// object.
func TestTasksOverTCP(t *testing.T) {
	c := newCluster(t)
	fast := func(c *node.Config) { c.TaskInterval = 20 * time.Millisecond }
	a := c.member(memberOptions{segments: []uint64{segment}, node: fast})
	b := c.member(memberOptions{segments: []uint64{segment}, node: fast})
	r := c.member(memberOptions{})
	on := one
	on.PreferredSegments = []string{a.name}
	value := content("k", 3_000_000)
	require.NoError(t, r.Put(t.Context(), "k", value, on))
	where := func() []string {
		res := r.Query(t.Context(), []string{"k"})[0]
		require.NoError(t, res.Err)
		var out []string
		for _, p := range res.Value.Replicas {
			out = append(out, p.Segment)
		}
		return out
	}
	end := func(id model.TaskID, err error) {
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			task, err := r.QueryTask(t.Context(), id)
			require.NoError(t, err)
			require.NotEqual(t, model.TaskFailed, task.Status, task.Message)
			return task.Status == model.TaskSuccess
		}, 30*time.Second, 5*time.Millisecond)
	}
	end(r.CreateCopyTask(t.Context(), "k", []string{b.name}))
	require.ElementsMatch(t, []string{a.name, b.name}, where())
	end(r.CreateMoveTask(t.Context(), "k", a.name, b.name))
	require.Equal(t, []string{b.name}, where())
	require.NoError(t, a.kill(t.Context()))
	got, err := r.Get(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, value, got)
	story, err := r.Why(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, model.FateReadable, story.Fate)
}
