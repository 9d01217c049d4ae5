package quic

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

const patience = 60 * time.Second

// testHost keeps what a transport says.
type testHost struct {
	mu     sync.Mutex
	text   bytes.Buffer
	health []plugin.Health
}

func (h *testHost) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.Write(b)
}

func (h *testHost) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(h, nil)) }

func (h *testHost) Report(x plugin.Health) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.health = append(h.health, x)
}

func (h *testHost) log() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.String()
}

func (h *testHost) last() plugin.Health {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.health) == 0 {
		return plugin.Health{}
	}
	return h.health[len(h.health)-1]
}

func start(t testing.TB, c *Config) (*node, *testHost) {
	t.Helper()
	require.NoError(t, plugin.Validate(c))
	n, h := newNode(*c), &testHost{}
	require.NoError(t, n.Start(context.Background(), h))
	t.Cleanup(func() { require.NoError(t, n.Stop(context.Background())) })
	return n, h
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// served is a node with a region of size bytes.
func served(t testing.TB, n *node, size int) (mem []byte, key transport.Key) {
	t.Helper()
	mem = make([]byte, size)
	for i := range mem {
		mem[i] = byte(i * 7)
	}
	key, err := n.Register(within(t), transport.Region{ID: 1, Mem: mem, FD: -1, Access: transport.AccessRemote})
	require.NoError(t, err)
	return mem, key
}

func dialled(t testing.TB, from *node, to transport.Endpoint, key transport.Key) (*path, transport.RemoteID) {
	t.Helper()
	p, err := from.Dial(within(t), to)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close(context.Background())) })
	id, err := p.Import(within(t), key)
	require.NoError(t, err)
	return p.(*path), id
}

// one carries out one operation.
func one(t testing.TB, p *path, o transport.Op) transport.Completion {
	t.Helper()
	n, err := p.Submit([]transport.Op{o})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	dst := make([]transport.Completion, 1)
	_, err = p.Reap(within(t), dst)
	require.NoError(t, err)
	require.Equal(t, o.ID, dst[0].ID)
	return dst[0]
}

func readOK(t testing.TB, p *path, id transport.RemoteID, want []byte) {
	t.Helper()
	buf := make([]byte, len(want))
	c := one(t, p, transport.Op{ID: 1, Kind: transport.Read, Local: buf, Remote: id})
	require.Equal(t, transport.OK, c.Status, "%v", c.Err)
	require.True(t, bytes.Equal(want, buf))
}

// refusedAs requires an operation to fail with a class and words.
func refusedAs(t testing.TB, p *path, id transport.RemoteID, class errs.Class, words string) {
	t.Helper()
	c := one(t, p, transport.Op{ID: 2, Kind: transport.Read, Local: make([]byte, 8), Remote: id})
	require.Equal(t, transport.Failed, c.Status)
	require.Equal(t, class, errs.ClassOf(c.Err), "%v", c.Err)
	require.ErrorContains(t, c.Err, words)
}

func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, patience, time.Millisecond, what)
}
