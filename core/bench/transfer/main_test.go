package transfer

import (
	"context"
	"log/slog"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/memory"
	metamemory "github.com/mooncake-go/mooncake/core/metadata/memory"
	"github.com/mooncake-go/mooncake/core/metadata/open"
	te "github.com/mooncake-go/mooncake/core/transfer"
)

func TestMain(m *testing.M) {
	if mode := os.Getenv("BENCH_TEST_TARGET"); mode != "" {
		fakeTarget(mode)
		return
	}
	goleak.VerifyTestMain(m)
}

// world is what the nodes of a test share.
type world struct {
	net   *memtransport.Network
	store *metamemory.Store
}

func newWorld() *world {
	return &world{memtransport.NewNetwork(), metamemory.New(metamemory.Limits{})}
}

func (w *world) node(t *testing.T, name string) (Node, *memtransport.Transport) {
	t.Helper()
	dir, err := open.Open(t.Context(), "memory://", open.Options{LocalName: name, BindHost: "127.0.0.1", Memory: w.store})
	require.NoError(t, err)
	wire := w.net.New(name)
	cfg := te.DefaultConfig()
	cfg.SliceSize, cfg.Window = 4<<10, 64<<10
	e, err := te.New(cfg, te.Deps{Directory: dir, Carriers: []te.Carrier{{Name: "mem", Transport: wire}}, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, e.Close(context.Background()))
		require.NoError(t, dir.Close(context.Background()))
	})
	return Node{
		Engine: e, Lookup: dir.Lookup,
		Allocate: func(name string, size uint64) (*memory.Block, error) {
			return memory.Allocate(size, memory.Options{Name: name})
		},
	}, wire
}

// pair is a session with a target, size bytes on either side. The wire is the session's.
func pair(t *testing.T, size uint64) (*Session, *Target, *memtransport.Transport) {
	t.Helper()
	w := newWorld()
	far, _ := w.node(t, "127.0.0.1:2")
	near, wire := w.node(t, "127.0.0.1:1")
	target, err := NewTarget(t.Context(), far, size)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, target.Close(context.Background())) })
	s, err := Connect(t.Context(), near, "/"+target.Segment(), size)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close(context.Background())) })
	return s, target, wire
}
