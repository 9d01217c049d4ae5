package master_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/master/internal/mastertest"
	"github.com/mooncake-go/mooncake/core/master/journal"
	"github.com/mooncake-go/mooncake/core/model"
	arena "github.com/mooncake-go/mooncake/plugins/alloc-arena"
	lru "github.com/mooncake-go/mooncake/plugins/evict-lru"
	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const page = 1 << 10

// rig is a running master with one client. alloc and lru are nil over the real plugins.
type rig struct {
	*master.Service
	t      testing.TB
	ctx    context.Context
	alloc  *mastertest.Alloc
	lru    *mastertest.LRU
	client model.ClientID
	segs   []model.Segment
}

// start runs a master whose pool has one segment of each size, in pages, on a node of its
// own. Proactive eviction is off unless configure turns it on.
func start(t testing.TB, configure func(*master.Config), pages ...int) *rig {
	t.Helper()
	a, l := mastertest.NewAlloc(), mastertest.NewLRU()
	r := startOn(t, a, l, configure, pages...)
	r.alloc, r.lru = a, l
	return r
}

// startReal is start with the plugins that the program brings along.
func startReal(t testing.TB, configure func(*master.Config), pages ...int) *rig {
	t.Helper()
	a, err := arena.Factory().New(arena.Factory().DefaultConfig())
	require.NoError(t, err)
	p, err := lru.Factory().New(lru.Factory().DefaultConfig())
	require.NoError(t, err)
	for _, c := range []plugin.Component{a, p} {
		require.NoError(t, c.Start(t.Context(), quietHost{}))
		t.Cleanup(func() { require.NoError(t, c.Stop(context.Background())) })
	}
	return startOn(t, a, p, configure, pages...)
}

type quietHost struct{}

func (quietHost) Logger() *slog.Logger { return slog.New(slog.DiscardHandler) }
func (quietHost) Report(plugin.Health) {}

func startOn(t testing.TB, a alloc.Allocator, p evict.Policy, configure func(*master.Config), pages ...int) *rig {
	t.Helper()
	return startFrom(t, master.Deps{Alloc: a, Evict: p}, configure, pages...)
}

func startFrom(t testing.TB, deps master.Deps, configure func(*master.Config), pages ...int) *rig {
	t.Helper()
	cfg := master.DefaultConfig()
	cfg.EvictionHighWatermark = 1
	cfg.MetricReporting = false
	cfg.MaxOpenRatio = 0
	if configure != nil {
		configure(&cfg)
	}
	r := &rig{t: t, ctx: context.Background(), client: model.UUID{Hi: 1, Lo: 1}}
	var err error
	deps.Log = slog.New(slog.DiscardHandler)
	deps.Boottime = func() journal.Instant { return journal.Instant(time.Now().UnixNano()) } // of a bubble
	r.Service, err = master.New(cfg, deps)
	require.NoError(t, err)
	require.NoError(t, r.Start(r.ctx))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, r.Stop(ctx))
	})
	for i, n := range pages {
		r.segs = append(r.segs, segment(i, n*page))
		require.NoError(t, r.MountSegment(r.ctx, r.client, r.segs[i]))
	}
	if len(pages) > 0 {
		require.NoError(t, r.RemountSegments(r.ctx, r.client, r.segs), "as a client does that its first ping tells to")
	}
	return r
}

func segment(i, size int) model.Segment {
	name := fmt.Sprintf("node-%d:1", i)
	return model.Segment{ID: model.UUID{Hi: 7, Lo: uint64(i + 1)}, Name: name, Endpoint: name, Base: uint64(i+1) << 40, Size: uint64(size), Protocol: "tcp"}
}

func items(keys []string, size int) []model.PutItem {
	out := make([]model.PutItem, len(keys))
	for i, k := range keys {
		out[i] = model.PutItem{Key: k, Size: uint64(size)}
	}
	return out
}

func ends(keys []string) []model.EndItem {
	out := make([]model.EndItem, len(keys))
	for i, k := range keys {
		out[i] = model.EndItem{Key: k, Checksum: model.Checksum{Kind: model.ChecksumCRC32C, Value: uint64(len(k))}}
	}
	return out
}

func revokes(keys []string) []model.RevokeItem {
	out := make([]model.RevokeItem, len(keys))
	for i, k := range keys {
		out[i] = model.RevokeItem{Key: k}
	}
	return out
}

// begin starts puts of one page each and returns the code of each.
func (r *rig) begin(keys ...string) []errs.Code {
	r.t.Helper()
	got, err := r.PutStart(r.ctx, model.Caller{Client: r.client}, items(keys, page), model.DefaultReplicateConfig(), nil)
	require.NoError(r.t, err)
	return codes(got)
}

// end ends puts.
func (r *rig) end(keys ...string) []errs.Code {
	r.t.Helper()
	got, err := r.PutEnd(r.ctx, model.Caller{Client: r.client}, ends(keys), nil)
	require.NoError(r.t, err)
	return errCodes(got)
}

// put writes objects of one page each, which must succeed.
func (r *rig) put(keys ...string) {
	r.t.Helper()
	for i, c := range r.begin(keys...) {
		require.Equal(r.t, errs.OK, c, "put start %s", keys[i])
	}
	for i, c := range r.end(keys...) {
		require.Equal(r.t, errs.OK, c, "put end %s", keys[i])
	}
}

// get reads objects and returns the code of each.
func (r *rig) get(keys ...string) []errs.Code {
	r.t.Helper()
	got, err := r.GetReplicas(r.ctx, model.Caller{}, keys, nil)
	require.NoError(r.t, err)
	return codes(got)
}

func (r *rig) exist(keys ...string) []bool {
	r.t.Helper()
	got, err := r.Exist(r.ctx, model.Caller{}, keys)
	require.NoError(r.t, err)
	out := make([]bool, len(got))
	for i, g := range got {
		require.NoError(r.t, g.Err)
		out[i] = g.Value
	}
	return out
}

func (r *rig) remove(force bool, keys ...string) []errs.Code {
	r.t.Helper()
	got, err := r.Remove(r.ctx, model.Caller{}, keys, force)
	require.NoError(r.t, err)
	return errCodes(got)
}

// here lists the readable keys.
func (r *rig) here() []string {
	r.t.Helper()
	keys, err := r.ListKeys(r.ctx, model.Caller{}, "", "", 1<<16)
	require.NoError(r.t, err)
	return keys
}

// value reads one series from /metrics.
func (r *rig) value(name string) float64 {
	r.t.Helper()
	families, err := r.Metrics().Gather()
	require.NoError(r.t, err)
	for _, f := range families {
		if f.GetName() == name {
			m := f.GetMetric()[0]
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	r.t.Fatalf("no metric %s", name)
	return 0
}

func codes[T any](results []model.Result[T]) []errs.Code {
	out := make([]errs.Code, len(results))
	for i, x := range results {
		out[i] = errs.CodeOf(x.Err)
	}
	return out
}

func errCodes(all []error) []errs.Code {
	out := make([]errs.Code, len(all))
	for i, err := range all {
		out[i] = errs.CodeOf(err)
	}
	return out
}

func one(c errs.Code) []errs.Code { return []errs.Code{c} }

func names(prefix string, from, to int) []string {
	var out []string
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("%s%05d", prefix, i))
	}
	return out
}
