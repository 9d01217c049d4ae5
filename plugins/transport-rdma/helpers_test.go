package rdma

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/rail"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/test/fakeverbs"
)

// testHost remembers the health that was reported.
type testHost struct {
	mu     sync.Mutex
	health []plugin.Health
}

func (h *testHost) Logger() *slog.Logger { return slog.New(slog.DiscardHandler) }

func (h *testHost) Report(v plugin.Health) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.health = append(h.health, v)
}

func (h *testHost) last() plugin.Health {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.health) == 0 {
		return plugin.Health{}
	}
	return h.health[len(h.health)-1]
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), short)
	t.Cleanup(cancel)
	return ctx
}

// launch starts a node, which ends with t.
func launch(t testing.TB, cfg *Config) *node {
	n := newNode(*cfg)
	require.NoError(t, plugin.Validate(cfg))
	require.NoError(t, n.Start(within(t), &testHost{}))
	t.Cleanup(func() { require.NoError(t, n.Stop(context.Background())) })
	return n
}

func (n *node) reported() plugin.Health { return n.host.(*testHost).last() }

// share registers fresh memory for peers.
func share(t testing.TB, n *node, id transport.RegionID, size int) ([]byte, transport.Key) {
	mem := make([]byte, size)
	key, err := n.Register(within(t), transport.Region{ID: id, Mem: mem, FD: -1, Location: "*", Access: transport.AccessRemote})
	require.NoError(t, err)
	return mem, key
}

// own registers fresh memory that peers may not use.
func own(t testing.TB, n *node, id transport.RegionID, size int) []byte {
	mem := make([]byte, size)
	_, err := n.Register(within(t), transport.Region{ID: id, Mem: mem, FD: -1, Location: "cpu:0"})
	require.NoError(t, err)
	return mem
}

func reach(t testing.TB, from *node, to transport.Endpoint, keys ...transport.Key) (*path, []transport.RemoteID) {
	p, err := from.Dial(within(t), to)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close(context.Background())) })
	var ids []transport.RemoteID
	for _, k := range keys {
		id, err := p.Import(within(t), k)
		require.NoError(t, err)
		ids = append(ids, id)
	}
	return p.(*path), ids
}

// run carries operations out and returns how they ended.
func run(t testing.TB, p transport.Path, ops ...transport.Op) map[uint64]transport.Completion {
	out := map[uint64]transport.Completion{}
	dst := make([]transport.Completion, 32)
	for open := 0; len(ops) > 0 || open > 0; {
		n, err := p.Submit(ops)
		require.NoError(t, err)
		ops, open = ops[n:], open+n
		n, err = p.Reap(within(t), dst)
		require.NoError(t, err)
		for _, c := range dst[:n] {
			require.NotContains(t, out, c.ID)
			out[c.ID] = c
		}
		open -= n
	}
	return out
}

// late is run, but the deadline of the first operation passes as soon as the device has met a
// fault.
func late(t testing.TB, p *path, rule *fakeverbs.Rule, ops ...transport.Op) map[uint64]transport.Completion {
	n, err := p.Submit(ops)
	require.NoError(t, err)
	require.Equal(t, len(ops), n)
	eventually(t, "the device has met the fault", func() bool { return rule.Hits() > 0 })
	p.Lock()
	for o := range p.Active() {
		if o.ID == ops[0].ID {
			p.expire(slices.Values([]*rail.Op{o}))
		}
	}
	p.Unlock()
	out := map[uint64]transport.Completion{}
	dst := make([]transport.Completion, 32)
	for len(out) < len(ops) {
		n, err := p.Reap(within(t), dst)
		require.NoError(t, err)
		for _, c := range dst[:n] {
			require.NotContains(t, out, c.ID)
			out[c.ID] = c
		}
	}
	return out
}

func fine(t testing.TB, p transport.Path, ops ...transport.Op) {
	t.Helper()
	for id, c := range run(t, p, ops...) {
		require.Equal(t, transport.OK, c.Status, "operation %d: %v", id, c.Err)
	}
}

// eventually waits for something that another goroutine brings about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, short, time.Millisecond, what)
}

// couple is two nodes of one world, with a path and memory on both sides.
type couple struct {
	server, client *node
	mem, buf       []byte
	key            transport.Key
	p              *path
	id             transport.RemoteID
}

func newCouple(t testing.TB, cfg func() *Config, size int) *couple {
	return coupleOf(t, cfg(), cfg(), size)
}

func coupleOf(t testing.TB, server, client *Config, size int) *couple {
	c := &couple{server: launch(t, server), client: launch(t, client)}
	c.mem, c.key = share(t, c.server, 1, size)
	c.buf = own(t, c.client, 1, size)
	p, ids := reach(t, c.client, c.server.Endpoint(), c.key)
	c.p, c.id = p, ids[0]
	return c
}

func (c *couple) write(id uint64, at, n int) transport.Op {
	return transport.Op{ID: id, Kind: transport.Write, Local: c.buf[at:][:n], Remote: c.id, Offset: uint64(at)}
}

func (c *couple) read(id uint64, at, n int) transport.Op {
	return transport.Op{ID: id, Kind: transport.Read, Local: c.buf[at:][:n], Remote: c.id, Offset: uint64(at)}
}

// fill writes bytes that follow from seed. They repeat after a length that no size of a
// request or registration is a multiple of.
func fill(b []byte, seed int) {
	const period = 65_543
	x := uint64(seed)*0x9e3779b97f4a7c15 + 1
	for i := range b[:min(len(b), period)] {
		x = x*6364136223846793005 + 1442695040888963407
		b[i] = byte(x >> 56)
	}
	for at := period; at < len(b); at *= 2 {
		copy(b[at:], b[:at])
	}
}
