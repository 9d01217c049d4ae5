package service_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/core/api/upstream/calls"
	"github.com/mooncake-go/mooncake/core/api/upstream/service"
	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/master/journal"
	"github.com/mooncake-go/mooncake/core/model"
	arena "github.com/mooncake-go/mooncake/plugins/alloc-arena"
	lru "github.com/mooncake-go/mooncake/plugins/evict-lru"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// versions are those that are served.
var versions = []calls.Version{calls.V9, calls.V10, calls.V11, calls.V12, calls.V13}

// each runs a test for the versions from one on.
func each(t *testing.T, since calls.Version, test func(t *testing.T, v calls.Version)) {
	t.Helper()
	for _, v := range versions {
		if v >= since {
			t.Run(fmt.Sprintf("version %d", v), func(t *testing.T) { test(t, v) })
		}
	}
}

// pool is a master with its plugins behind the calls of upstream's clients.
type pool struct {
	*service.Service
	t      testing.TB
	master *master.Service
}

type quiet struct{}

func (quiet) Logger() *slog.Logger { return slog.New(slog.DiscardHandler) }
func (quiet) Report(plugin.Health) {}

// newPool starts a master that has segments of so many KiB, each of a client of upstream of its own.
func newPool(t testing.TB, configure func(*master.Config), kib ...uint64) *pool {
	t.Helper()
	return newPoolWith(t, master.Deps{}, configure, kib...)
}

func newPoolWith(t testing.TB, deps master.Deps, configure func(*master.Config), kib ...uint64) *pool {
	t.Helper()
	ctx := context.Background()
	a, err := arena.Factory().New(arena.Factory().DefaultConfig())
	require.NoError(t, err)
	e, err := lru.Factory().New(lru.Factory().DefaultConfig())
	require.NoError(t, err)
	cfg := master.DefaultConfig()
	cfg.MetricReporting, cfg.MaxOpenRatio = false, 0
	if configure != nil {
		configure(&cfg)
	}
	log := slog.New(slog.DiscardHandler)
	deps.Alloc, deps.Evict, deps.Log = a, e, log
	deps.Boottime = func() journal.Instant { return journal.Instant(time.Now().UnixNano()) } // of a bubble
	m, err := master.New(cfg, deps)
	require.NoError(t, err)
	for _, c := range []plugin.Component{a, e} {
		require.NoError(t, c.Start(ctx, quiet{}))
	}
	require.NoError(t, m.Start(ctx))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, m.Stop(ctx))
		require.NoError(t, e.Stop(ctx))
		require.NoError(t, a.Stop(ctx))
	})
	p := &pool{Service: service.New(m, log), t: t, master: m}
	for i, n := range kib {
		p.join(calls.V9, i, n)
	}
	return p
}

// node is the client that has a segment.
func node(i int) model.ClientID { return model.UUID{Hi: 0xa, Lo: uint64(i)} }

func segment(i int, kib uint64) calls.Segment {
	return calls.Segment{
		ID: model.UUID{Hi: 0x5e, Lo: uint64(i)}, Name: nameOf(i), Base: uint64(i+1) << 40, Size: kib << 10,
		Endpoint: fmt.Sprintf("10.0.0.%d:15000", i+1), Protocol: "tcp",
	}
}

// nameOf is the name of a segment.
func nameOf(i int) string { return fmt.Sprintf("10.0.0.%d:12345", i+1) }

// join mounts a segment as a client does at its start.
func (p *pool) join(v calls.Version, i int, kib uint64) {
	p.t.Helper()
	seg := segment(i, kib)
	require.Equal(p.t, errs.OK, ask(p, v, calls.MountSegment, calls.MountSegmentRequest{Segment: seg, Client: node(i)}).Code)
	require.Equal(p.t, errs.OK, ask(p, v, calls.ReMountSegment, calls.ReMountSegmentRequest{Segments: []calls.Segment{seg}, Client: node(i)}).Code)
}

// ask makes a call as a client of a version does.
func ask[Q, R any](p *pool, v calls.Version, f *calls.Call[Q, R], q Q) R {
	p.t.Helper()
	r, err := askFailing(p, v, f, q)
	require.NoError(p.t, err)
	return r
}

// askFailing is ask for a call that may be refused.
func askFailing[Q, R any](p *pool, v calls.Version, f *calls.Call[Q, R], q Q) (r R, err error) {
	p.t.Helper()
	body, err := f.AppendRequest(nil, v, &q)
	require.NoError(p.t, err)
	answer, err := p.AnswerAs(p.t.Context(), v, f.ID(), body)
	if err != nil {
		return r, err
	}
	require.NoError(p.t, f.DecodeResponse(answer, v, &r))
	return r, nil
}

// client is a client of upstream.
type client struct {
	*pool
	v  calls.Version
	id model.ClientID
}

func (p *pool) client(v calls.Version, n uint64) *client {
	return &client{p, v, model.UUID{Hi: 0xc, Lo: n}}
}

func (c *client) start(key string, size uint64, cfg calls.ReplicateConfig) calls.Expected[[]calls.Descriptor] {
	c.t.Helper()
	cfg.Replicas = max(cfg.Replicas, 1)
	return ask(c.pool, c.v, calls.PutStart, calls.PutStartRequest{Client: c.id, Key: key, Size: size, Config: cfg, Tenant: "default"})
}

func (c *client) end(key string) errs.Code {
	c.t.Helper()
	return ask(c.pool, c.v, calls.PutEnd, calls.PutEndRequest{Client: c.id, ObjectMeta: calls.ObjectMeta{Key: key}, Type: c.kind(), Tenant: "default"}).Code
}

// kind is the type that clients of a version name at the end of a put.
func (c *client) kind() calls.ReplicaType {
	if c.v >= calls.V12 {
		return calls.TypeAll
	}
	return calls.TypeMemory
}

func (c *client) revoke(key string) errs.Code {
	c.t.Helper()
	return ask(c.pool, c.v, calls.PutRevoke, calls.PutRevokeRequest{Client: c.id, Key: key, Type: c.kind(), Tenant: "default"}).Code
}

// put writes an object, which must succeed, and returns its replicas.
func (c *client) put(key string, size uint64, cfg calls.ReplicateConfig) []calls.Descriptor {
	c.t.Helper()
	got := c.start(key, size, cfg)
	require.Equal(c.t, errs.OK, got.Code, "put start %s", key)
	require.Equal(c.t, errs.OK, c.end(key), "put end %s", key)
	return got.Value
}

func (c *client) get(key string) calls.Expected[calls.ReplicaList] {
	c.t.Helper()
	return ask(c.pool, c.v, calls.GetReplicaList, calls.GetReplicaListRequest{Key: key, Tenant: "default"})
}

func (c *client) exist(key string) bool {
	c.t.Helper()
	got := ask(c.pool, c.v, calls.ExistKey, calls.ExistKeyRequest{Key: key, Tenant: "default"})
	require.Equal(c.t, errs.OK, got.Code)
	return got.Value
}

func (c *client) remove(key string, force bool) errs.Code {
	c.t.Helper()
	return ask(c.pool, c.v, calls.Remove, calls.RemoveRequest{Key: key, Force: force, Tenant: "default"}).Code
}

func (c *client) removeAll() int64 {
	c.t.Helper()
	return ask(c.pool, c.v, calls.RemoveAll, calls.RemoveAllRequest{Force: true, Tenant: "default"})
}

func codes[T any](in []calls.Expected[T]) []errs.Code {
	out := make([]errs.Code, len(in))
	for i := range in {
		out[i] = in[i].Code
	}
	return out
}
