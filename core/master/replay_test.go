package master_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// restartAlloc does what happens to a subprocess: it goes down with all its state, comes up, is
// resynced, and gets calls again.
func (r *rig) restartAlloc() {
	r.t.Helper()
	r.alloc.Down.Store(true)
	fresh := r.alloc
	fresh.Restart()
	r.alloc.Down.Store(false)
	require.NoError(r.t, r.ReplayAlloc(r.ctx, fresh))
}

func TestRestartedAllocatorLearnsWhatIsInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil, 8, 8)
		r.put("a", "b", "c")
		r.begin("unfinished")
		r.put("leased")
		r.get("leased")
		r.remove(true, "leased") // held until the lease ends
		before := r.alloc.Live()
		require.Len(t, before, 5)
		r.restartAlloc()
		require.ElementsMatch(t, before, r.alloc.Live())
		r.keepAlive(12 * time.Second)
		require.Len(t, r.alloc.Live(), 4)
		require.Equal(t, one(errs.OK), r.end("unfinished"))
	})
}

func TestAllocatorThatIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil, 8)
		r.put("a", "b")
		r.alloc.Down.Store(true)
		require.Equal(t, one(errs.OK), r.get("b"), "reads need no allocator")
		require.Equal(t, one(errs.OK), r.remove(true, "a"), "its memory waits")
		require.Equal(t, one(errs.NoAvailableHandle), r.begin("c"))
		require.Error(t, r.MountSegment(r.ctx, r.client, segment(5, page)))
		list, err := r.Segments(r.ctx)
		require.NoError(t, err)
		require.Equal(t, uint64(page), list[0].Used, "the master's own account")
		require.Len(t, r.alloc.Live(), 2)
		r.alloc.Down.Store(false)
		r.keepAlive(2 * time.Second)
		require.Len(t, r.alloc.Live(), 1, "freed once it answers again")

		r.alloc.Down.Store(true)
		r.remove(true, "b")
		require.NoError(t, r.UnmountSegment(r.ctx, r.client, r.segs[0].ID, 0))
		r.keepAlive(time.Second)
		r.alloc.Down.Store(false)
		r.keepAlive(2 * time.Second)
		_, err = r.alloc.Stats(r.ctx, 1)
		require.Error(t, err, "the space is removed once it answers again")
	})
}

func TestReplayRefusesAnAllocatorThatCannotTakeBack(t *testing.T) {
	r := start(t, nil, 8)
	r.put("a")
	used := r.alloc.Live()
	r.alloc.Restart()
	require.NoError(t, r.alloc.AddSpace(r.ctx, alloc.Space{ID: used[0].Space, Size: 8 * page}))
	require.Error(t, r.ReplayAlloc(r.ctx, r.alloc), "the space is there already")
	r.alloc.Restart()
	r.alloc.Down.Store(true)
	require.Error(t, r.ReplayAlloc(r.ctx, r.alloc))
}

// The allocator restarts again and again while clients put, remove and revoke: nothing may
// be given out twice and nothing may leak.
func TestReplayUnderLoad(t *testing.T) {
	r := start(t, noLease, 64, 64)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 300 {
				key := fmt.Sprintf("w%d-%d", w, i%40)
				if got, err := r.PutStart(r.ctx, model.Caller{Client: r.client}, items([]string{key}, page), model.DefaultReplicateConfig(), nil); err != nil || got[0].Err != nil {
					continue
				}
				switch i % 3 {
				case 0:
					_, _ = r.PutRevoke(r.ctx, model.Caller{Client: r.client}, revokes([]string{key}))
				case 1:
					_, _ = r.PutEnd(r.ctx, model.Caller{Client: r.client}, ends([]string{key}), nil)
					_, _ = r.Remove(r.ctx, model.Caller{}, []string{key}, true)
				default:
					_, _ = r.PutEnd(r.ctx, model.Caller{Client: r.client}, ends([]string{key}), nil)
				}
			}
		})
	}
	for range 50 {
		r.restartAlloc()
	}
	wg.Wait()
	r.restartAlloc()
	require.Len(t, r.alloc.Live(), int(r.value("master_key_count")), "one extent for each object, no more")
	require.Equal(t, r.value("master_key_count")*page, r.value("master_allocated_bytes"))
	_, err := r.RemoveAll(r.ctx, model.Caller{}, true)
	require.NoError(t, err)
	require.Len(t, r.alloc.Live(), int(r.value("master_key_count")), "only unfinished ones are left")
}

func TestRestartedPolicyLearnsTheOrder(t *testing.T) {
	r := start(t, noLease, 4)
	r.put("a", "b", "c", "d")
	r.get("b", "a")
	r.put("e") // evicts c, so that everything has been told to the first instance
	r.lru.Restart()
	require.NoError(t, r.ReplayEvict(r.ctx, r.lru))
	r.put("f")
	require.Equal(t, []string{"a", "b", "e", "f"}, r.here())
	r.put("g")
	require.Equal(t, []string{"a", "e", "f", "g"}, r.here())
}

// A policy that fails for a while and lives on must not lose track of any object.
func TestPolicyThatFailsForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, nil, 4)
		r.put("a", "b")
		r.exist("a")
		r.put("c", "d")
		r.put("e") // parks a, evicts b
		require.Equal(t, []string{"a", "c", "d", "e"}, r.here())
		r.lru.Down.Store(true)
		require.Equal(t, one(errs.OK), r.remove(true, "c"))
		require.Equal(t, one(errs.OK), r.begin("f"))
		require.Equal(t, one(errs.OK), r.end("f"))
		r.keepAlive(11 * time.Second)
		got, err := r.PutStart(r.ctx, model.Caller{Client: r.client}, items([]string{"x"}, page), model.DefaultReplicateConfig(), nil)
		require.NoError(t, err)
		require.NoError(t, got[0].Err, "a parked candidate needs no policy")
		got, err = r.PutStart(r.ctx, model.Caller{Client: r.client}, items([]string{"y"}, page), model.DefaultReplicateConfig(), nil)
		require.NoError(t, err)
		require.ErrorContains(t, got[0].Err, "eviction failed")
		r.lru.Down.Store(false)
		r.keepAlive(2 * time.Second)
		r.end("x")
		for _, k := range names("k", 0, 8) {
			r.put(k)
		}
		require.Equal(t, names("k", 4, 8), r.here(), "everything could be evicted in turn")
		st, err := r.lru.Stats(r.ctx)
		require.NoError(t, err)
		require.LessOrEqual(t, st.Objects, uint64(4), "no ghosts")
	})
}

// What the policy proposed in an answer that never arrived must come up again.
func TestLostProposal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, noLease, 3)
		r.put("a", "b", "c")
		r.lru.LoseReply.Store(true)
		require.Equal(t, one(errs.NoAvailableHandle), r.begin("d"))
		r.lru.LoseReply.Store(false)
		r.keepAlive(2 * time.Second)
		r.put("d")
		require.Equal(t, []string{"b", "c", "d"}, r.here(), "still the least recent")
		st, err := r.lru.Stats(r.ctx)
		require.NoError(t, err)
		require.Zero(t, st.Proposed)
	})
}
