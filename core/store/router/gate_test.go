package router_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/cells"
	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/master/journal"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/router"
	arena "github.com/mooncake-go/mooncake/plugins/alloc-arena"
	lru "github.com/mooncake-go/mooncake/plugins/evict-lru"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// newMaster starts a master with one mounted segment.
func newMaster(t require.TestingT, i int) (m *master.Service, stop func()) {
	ctx := context.Background()
	a, err := arena.Factory().New(arena.Factory().DefaultConfig())
	require.NoError(t, err)
	require.NoError(t, a.Start(ctx, host{}))
	e, err := lru.Factory().New(lru.Factory().DefaultConfig())
	require.NoError(t, err)
	require.NoError(t, e.Start(ctx, host{}))
	cfg := master.DefaultConfig()
	cfg.MetricReporting, cfg.Version, cfg.MaxOpenRatio = false, "1.2.3", 0
	cfg.ClientTTL, cfg.LeaseTTL = time.Hour, time.Minute // Nothing ends during a test.
	m, err = master.New(cfg, master.Deps{Alloc: a, Evict: e, Log: host{}.Logger(), Boottime: func() journal.Instant { return journal.Instant(time.Now().UnixNano()) }})
	require.NoError(t, err)
	require.NoError(t, m.Start(ctx))
	require.NoError(t, m.MountSegment(ctx, nodeID, segmentOf(i)))
	return m, func() {
		require.NoError(t, m.Stop(ctx))
		require.NoError(t, e.Stop(ctx))
		require.NoError(t, a.Stop(ctx))
	}
}

func segmentOf(i int) model.Segment {
	name := fmt.Sprint("n:", i)
	return model.Segment{ID: model.SegmentID{Lo: uint64(i) + 1}, Name: name, Endpoint: name, Base: 1<<40 + uint64(i)<<30, Size: 64 << 20, Protocol: "tcp"}
}

// gate is a master that can be cut off.
type gate struct {
	store.Master
	mu    sync.Mutex
	cut   error         // calls fail with it
	hangs chan struct{} // calls wait for it, unless their context ends
	calls int
}

func (g *gate) pass(ctx context.Context) error {
	g.mu.Lock()
	cut, hangs := g.cut, g.hangs
	g.calls++
	g.mu.Unlock()
	if hangs != nil {
		select {
		case <-hangs:
		case <-ctx.Done():
			return errs.Wrap(errs.RPCTimeout, "gate", ctx.Err())
		}
	}
	return cut
}

func (g *gate) set(cut error, hangs chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cut, g.hangs = cut, hangs
}

func (g *gate) Ready(ctx context.Context) (string, error) {
	if err := g.pass(ctx); err != nil {
		return "", err
	}
	return g.Master.Ready(ctx)
}

func (g *gate) Ping(ctx context.Context, c model.ClientID, r model.PingReport) (model.PingReply, error) {
	if err := g.pass(ctx); err != nil {
		return model.PingReply{}, err
	}
	return g.Master.Ping(ctx, c, r)
}

func (g *gate) Exist(ctx context.Context, c model.Caller, keys []model.Key) ([]model.Result[bool], error) {
	if err := g.pass(ctx); err != nil {
		return nil, err
	}
	return g.Master.Exist(ctx, c, keys)
}

func (g *gate) PutStart(ctx context.Context, c model.Caller, items []model.PutItem, cfg model.ReplicateConfig, into *model.Answer[[]model.Replica]) ([]model.Result[[]model.Replica], error) {
	if err := g.pass(ctx); err != nil {
		return nil, err
	}
	return g.Master.PutStart(ctx, c, items, cfg, into)
}

func (g *gate) ListKeys(ctx context.Context, c model.Caller, expr string, after model.Key, limit int) ([]model.Key, error) {
	if err := g.pass(ctx); err != nil {
		return nil, err
	}
	return g.Master.ListKeys(ctx, c, expr, after, limit)
}

// gated are cells with a gate before each.
func gated(t *testing.T, n int) (*router.Router, []*gate) {
	var gates []*gate
	var masters []store.Master
	for i := range n {
		time.Sleep(time.Millisecond) // Each has an epoch of its own.
		m, stop := newMaster(t, i)
		t.Cleanup(stop)
		gates = append(gates, &gate{Master: m})
		masters = append(masters, gates[i])
	}
	r := router.New(masters...)
	t.Cleanup(r.Close)
	return r, gates
}

// keysOf returns some keys of each cell.
func keysOf(n, each int) (keys []model.Key) {
	have := make([]int, n)
	for i := 0; len(keys) < n*each; i++ {
		k := fmt.Sprint("k", i)
		if c := cells.Of(k, n); have[c] < each {
			have[c]++
			keys = append(keys, k)
		}
	}
	return keys
}

func handedOver(t *testing.T, away error) {
	const n, moving = 2, 1
	r, gates := gated(t, n)
	keys := keysOf(n, 2)
	exist := func() (failed int) {
		got, err := r.Exist(t.Context(), model.Caller{}, keys)
		require.NoError(t, err)
		for _, g := range got {
			if g.Err != nil {
				require.Equal(t, errs.CodeOf(away), errs.CodeOf(g.Err), "%v", g.Err)
				failed++
			}
		}
		return failed
	}
	require.Zero(t, exist())
	gates[moving].set(away, nil)
	go func() {
		time.Sleep(200 * time.Millisecond)
		gates[moving].set(nil, nil)
	}()
	require.Zero(t, exist())
	gates[moving].set(away, nil)
	require.Equal(t, 2, exist(), "no master takes over")
	began := time.Now()
	require.Equal(t, 2, exist())
	require.Equal(t, began, time.Now(), "in fake time: it is not waited for again")
	gates[moving].set(nil, nil)
	time.Sleep(time.Second)
	exist() // It has the cell asked.
	synctest.Wait()
	require.Zero(t, exist())
}
