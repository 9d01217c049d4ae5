package transfer_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

func TestRetryLadder(t *testing.T) {
	path := errs.WithClass(errs.ClassTransientPath, "test", errors.New("cut"))
	device := errs.WithClass(errs.ClassLocalDevice, "test", errors.New("no device"))
	permanent := errs.New(errs.InvalidParams, "test", "refused")
	for name, c := range map[string]struct {
		hook               memtransport.Hook
		ok                 bool
		retries, failovers uint64
		second             bool // the second transport was used
		lookups            int
	}{
		"one cut connection: the same path again": {
			hook: func(e memtransport.Event) memtransport.Fault { return fail(e.N == 1, path) }, ok: true, retries: 1, lookups: 1},
		"a dead path: the next transport": {
			hook: func(memtransport.Event) memtransport.Fault { return fail(true, path) }, ok: true, retries: 2, failovers: 1, second: true, lookups: 1},
		"a dead device: the next transport at once": {
			hook: func(memtransport.Event) memtransport.Fault { return fail(true, device) }, ok: true, retries: 1, failovers: 1, second: true, lookups: 1},
		"a wrong request: no retry": {
			hook: func(memtransport.Event) memtransport.Fault { return fail(true, permanent) }, lookups: 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "rdma", "tcp")
			a, b := w.node("a", []string{"rdma", "tcp"}, 0), w.node("b", []string{"rdma", "tcp"}, 1<<20)
			a.wires["rdma"].SetHook(c.hook)
			var used sync.Once
			second := false
			a.wires["tcp"].SetHook(func(memtransport.Event) memtransport.Fault {
				used.Do(func() { second = true })
				return memtransport.Fault{}
			})
			err := a.move(transport.Write, b, 0, pattern(4096, 1))
			require.Equal(t, c.ok, err == nil, "%v", err)
			require.Equal(t, c.retries, a.Stats().Retries)
			require.Equal(t, c.failovers, a.Stats().Failovers)
			require.Equal(t, c.second, second)
			require.Equal(t, c.lookups, w.asked("b"))
		})
	}
}

func fail(yes bool, err error) memtransport.Fault {
	if yes {
		return memtransport.Fault{Err: err}
	}
	return memtransport.Fault{}
}

func TestRestartedPeerIsLookedUpAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "tcp")
		a, b := w.node("a", []string{"tcp"}, 0), w.node("b", []string{"tcp"}, 1<<20)
		require.NoError(t, a.move(transport.Write, b, 0, pattern(10, 1)))
		again := w.node("b", []string{"tcp"}, 1<<20)
		time.Sleep(time.Second)
		require.NoError(t, a.move(transport.Write, again, 0, pattern(10, 2)))
		require.Equal(t, pattern(10, 2), again.mem[:10])
		require.Equal(t, 2, w.asked("b"))
		require.Equal(t, 2, a.wires["tcp"].Dials())
		for _, n := range []*node{a, b, again} {
			n.stop(t)
		}
	})
}

// TestRestartInTheMiddle: a request whose first slices went to a process that is no more
// must not go on with the memory of its successor.
func TestRestartInTheMiddle(t *testing.T) {
	w := newWorld(t, "tcp")
	narrow := func(c *transfer.Config, _ *transfer.Deps) { c.Window = int64(c.SliceSize) }
	a, b := w.node("a", []string{"tcp"}, 0, narrow), w.node("b", []string{"tcp"}, 1<<20)
	var once sync.Once
	a.wires["tcp"].SetHook(func(e memtransport.Event) memtransport.Fault {
		if e.N == 3 {
			once.Do(func() {
				// The successor answers for the very same addresses.
				successor := w.nets["tcp"].New("b")
				key, err := successor.Register(context.Background(), transport.Region{ID: 1, Mem: make([]byte, 1<<20), FD: -1, Access: transport.AccessRemote})
				if err != nil {
					panic(err)
				}
				d := b.Descriptor()
				d.Life++
				d.Transports[0].Incarnation = successor.Endpoint().Incarnation
				d.Transports[0].Regions[0].Key = key
				_ = directory{w, "b"}.Publish(context.Background(), d)
			})
		}
		return memtransport.Fault{}
	})
	err := a.move(transport.Read, b, 0, make([]byte, 10*4096))
	require.ErrorContains(t, err, "restarted in the middle")
	require.NoError(t, a.move(transport.Read, b, 0, make([]byte, 10*4096)), "a new request is fine")
}

func TestQuarantineReachesTheCaller(t *testing.T) {
	w := newWorld(t, "tcp")
	a, b := w.node("a", []string{"tcp"}, 0), w.node("b", []string{"tcp"}, 1<<20)
	a.wires["tcp"].SetHook(func(e memtransport.Event) memtransport.Fault {
		return memtransport.Fault{Err: errs.WithClass(errs.ClassTransientPath, "test", errors.New("cut")), Quarantine: e.N == 2}
	})
	err := a.move(transport.Write, b, 0, pattern(4096, 1))
	require.ErrorIs(t, err, transfer.ErrQuarantined)
	require.Equal(t, uint64(1), a.Stats().Quarantined)
}

// TestQuarantinedStagingBuffer: a read into a buffer of ours is tried again, and the buffer
// never lent again.
func TestQuarantinedStagingBuffer(t *testing.T) {
	w := newWorld(t, "rdma")
	staging, err := memory.NewPool(make([]byte, 32<<10))
	require.NoError(t, err)
	strict := func(_ *transfer.Config, d *transfer.Deps) { d.Carriers[0].LocalAny, d.Staging = false, staging }
	a, b := w.node("a", []string{"rdma"}, 0, strict), w.node("b", []string{"rdma"}, 1<<20)
	_, err = a.Register(t.Context(), transfer.Memory{Bytes: staging.Memory(), FD: -1})
	require.NoError(t, err)
	a.wires["rdma"].SetHook(func(e memtransport.Event) memtransport.Fault {
		if e.N > 1 {
			return memtransport.Fault{}
		}
		return memtransport.Fault{Err: errs.WithClass(errs.ClassTransientPath, "test", errors.New("cut")), Quarantine: true}
	})
	copy(b.mem, pattern(100, 3))
	got := make([]byte, 100)
	require.NoError(t, a.move(transport.Read, b, 0, got))
	require.Equal(t, pattern(100, 3), got)
	require.Equal(t, uint64(1), a.Stats().Quarantined)
	require.Equal(t, 4<<10, staging.Used())
}

// TestRenewalIsShared: of requests that fail one after the other with the same links, the
// first has the peer looked up anew for all.
func TestRenewalIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "tcp")
		a, b := w.node("a", []string{"tcp"}, 0), w.node("b", []string{"tcp"}, 1<<20)
		gone := errs.WithClass(errs.ClassTransientPeer, "test", errors.New("gone"))
		a.wires["tcp"].SetHook(func(e memtransport.Event) memtransport.Fault {
			if e.N > 5 {
				return memtransport.Fault{}
			}
			return memtransport.Fault{Err: gone, Delay: time.Duration(e.N) * time.Second}
		})
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				if err := a.move(transport.Write, b, i*100, pattern(100, 1)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		require.Equal(t, 2, w.asked("b"))
		a.stop(t)
		b.stop(t)
	})
}

func TestDuplicateCompletionsAreIgnored(t *testing.T) {
	w := newWorld(t, "tcp")
	a, b := w.node("a", []string{"tcp"}, 0), w.node("b", []string{"tcp"}, 1<<20)
	a.wires["tcp"].SetHook(func(memtransport.Event) memtransport.Fault { return memtransport.Fault{Duplicate: true} })
	for i := range 3 {
		require.NoError(t, a.move(transport.Write, b, 0, pattern(200_000, byte(i))))
		require.Equal(t, pattern(200_000, byte(i)), b.mem[:200_000])
	}
	require.NotZero(t, a.Stats().Stray)
}
