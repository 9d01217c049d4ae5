package master_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// A plugin may be a subprocess at 100 us a call: a batch costs a fixed number of calls,
// not one for each key.
func TestBatchesCostFewPluginCalls(t *testing.T) {
	r := start(t, noLease, 256, 256)
	r.put(names("a", 0, 256)...)
	require.Equal(t, int64(1), r.alloc.AllocCalls.Load())
	require.Zero(t, r.alloc.FreeCalls.Load())
	r.put(names("b", 0, 256)...)

	allocs, proposes, resolves := r.alloc.AllocCalls.Load(), r.lru.ProposeCalls.Load(), r.lru.ResolveCalls.Load()
	r.put(names("c", 0, 256)...) // everything has to be evicted for
	require.Equal(t, allocs+2, r.alloc.AllocCalls.Load(), "one that fails, one that succeeds")
	require.Equal(t, int64(1), r.alloc.FreeCalls.Load())
	require.Equal(t, proposes+1, r.lru.ProposeCalls.Load())
	require.Equal(t, resolves+1, r.lru.ResolveCalls.Load())

	frees := r.alloc.FreeCalls.Load()
	r.remove(false, names("c", 0, 256)...)
	require.Equal(t, frees+1, r.alloc.FreeCalls.Load())
}

// Many clients at once on few keys and little space; the race detector and the final
// accounts are the judges.
func TestManyClientsAtOnce(t *testing.T) {
	r := start(t, func(c *master.Config) { c.LeaseTTL = 0; c.EvictionHighWatermark = 0.9 }, 40, 40, 40)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 7))
			me := model.UUID{Hi: 100, Lo: uint64(w + 1)}
			for range 150 {
				var keys []string
				for range 1 + rng.IntN(10) {
					keys = append(keys, fmt.Sprintf("k%d", rng.IntN(200)))
				}
				switch rng.IntN(10) {
				case 0:
					_, _ = r.Remove(r.ctx, model.Caller{}, keys, rng.IntN(2) == 0)
				case 1:
					_, _ = r.Exist(r.ctx, model.Caller{}, keys)
				case 2:
					_, _ = r.RemoveByRegex(r.ctx, model.Caller{}, "7$", false)
				case 3:
					seg := segment(10+w, 20*page)
					_ = r.MountSegment(r.ctx, me, seg)
					_ = r.UnmountSegment(r.ctx, me, seg.ID, 0)
				case 4:
					_, _ = r.ListKeys(r.ctx, model.Caller{}, "", "", 10)
					_ = r.Summary()
				case 5, 6:
					got, err := r.GetReplicas(r.ctx, model.Caller{}, keys, nil)
					require.NoError(t, err)
					for i := range got {
						require.Equal(t, got[i].Err == nil, len(got[i].Value.Replicas) > 0)
					}
				default:
					got, err := r.PutStart(r.ctx, model.Caller{Client: me}, items(keys, 1+rng.IntN(2*page)), model.ReplicateConfig{ReplicaNum: 1 + uint32(rng.IntN(2))}, nil)
					require.NoError(t, err)
					for i := range got {
						if got[i].Err != nil {
							continue
						}
						if rng.IntN(5) == 0 {
							_, err = r.PutRevoke(r.ctx, model.Caller{Client: me}, revokes(keys[i:i+1]))
						} else {
							_, err = r.PutEnd(r.ctx, model.Caller{Client: me}, ends(keys[i:i+1]), nil)
						}
						require.NoError(t, err)
					}
				}
			}
		})
	}
	wg.Wait()
	_, err := r.RemoveAll(r.ctx, model.Caller{}, true)
	require.NoError(t, err)
	require.Zero(t, r.value("master_key_count"))
	require.Zero(t, r.value("master_allocated_bytes"))
	require.Empty(t, r.alloc.Live())
}

func TestMemoryThatIsTooScattered(t *testing.T) {
	r := start(t, noLease, 16)
	r.put(names("small", 0, 16)...)
	for i := 0; i < 16; i += 2 {
		r.get(names("small", i, i+1)...) // every second one is recent
	}
	got, err := r.PutStart(r.ctx, model.Caller{Client: r.client}, items([]string{"large"}, 4*page), model.DefaultReplicateConfig(), nil)
	require.NoError(t, err)
	require.Equal(t, one(errs.OK), codes(got), "evicts until the space is in one piece")
}

// TestNumbersTellCallsApart: a node sees by the numbers of puts which objects were put together.
func TestNumbersTellCallsApart(t *testing.T) {
	r := start(t, noLease, 64)
	var last uint64
	for call := range 3 {
		var items []model.PutItem
		for i := range 4 {
			items = append(items, model.PutItem{Key: fmt.Sprintf("k%d-%d", call, i), Size: 1})
		}
		got, err := r.PutStart(r.ctx, model.Caller{Client: model.UUID{Lo: 1}}, items, model.DefaultReplicateConfig(), nil)
		require.NoError(t, err)
		for i, g := range got {
			require.NoError(t, g.Err)
			if id := g.Value[0].ID; i > 0 {
				require.Equal(t, last+1, id)
			} else if call > 0 {
				require.GreaterOrEqual(t, id-last, uint64(model.CallGap))
			}
			last = g.Value[0].ID
		}
	}
}
