package transfer_test

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a directory and networks that nodes of a test share.
type world struct {
	t    testing.TB
	nets map[string]*memtransport.Network

	mu      sync.Mutex
	entries map[string]*metadata.Descriptor
	lookups map[string]int
	tells   map[string]int  // publications
	hangs   map[string]bool // names that are never answered
	broken  error
}

func newWorld(t testing.TB, nets ...string) *world {
	w := &world{t: t, nets: map[string]*memtransport.Network{}, entries: map[string]*metadata.Descriptor{}, lookups: map[string]int{},
		tells: map[string]int{}, hangs: map[string]bool{}}
	for _, n := range nets {
		w.nets[n] = memtransport.NewNetwork()
	}
	return w
}

// directory is one node's view of the world.
type directory struct {
	w    *world
	name string
}

func (d directory) LocalName() string { return d.name }

func (d directory) Publish(_ context.Context, desc *metadata.Descriptor) error {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	d.w.entries[d.name] = desc
	d.w.tells[d.name]++
	return d.w.broken
}

func (d directory) Lookup(ctx context.Context, name string) (*metadata.Descriptor, error) {
	d.w.mu.Lock()
	if d.w.hangs[name] {
		d.w.mu.Unlock()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	defer d.w.mu.Unlock()
	d.w.lookups[name]++
	if d.w.broken != nil {
		return nil, d.w.broken
	}
	if e := d.w.entries[name]; e != nil {
		return e, nil
	}
	return nil, metadata.ErrNotFound
}

func (d directory) Withdraw(context.Context) error {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	delete(d.w.entries, d.name)
	return nil
}

func (d directory) Close(ctx context.Context) error { return d.Withdraw(ctx) }

func (w *world) asked(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.lookups)[name]
}

// node is an engine with a piece of memory that is open to peers.
type node struct {
	*transfer.Engine
	name  string
	mem   []byte
	base  uint64
	wires map[string]*memtransport.Transport
}

type option func(*transfer.Config, *transfer.Deps)

func (w *world) node(name string, carriers []string, size int, opts ...option) *node {
	w.t.Helper()
	n := &node{name: name, wires: map[string]*memtransport.Transport{}}
	cfg := transfer.DefaultConfig()
	cfg.SliceSize, cfg.Window = 4<<10, 64<<10
	deps := transfer.Deps{Directory: directory{w, name}, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	for _, c := range carriers {
		n.wires[c] = w.nets[c].New(name)
		deps.Carriers = append(deps.Carriers, transfer.Carrier{Name: c, Transport: n.wires[c], LocalAny: true})
	}
	for _, o := range opts {
		o(&cfg, &deps)
	}
	var err error
	n.Engine, err = transfer.New(cfg, deps)
	require.NoError(w.t, err)
	if size > 0 {
		n.mem = make([]byte, size)
		n.base = memory.AddrOf(n.mem)
		_, err = n.Register(context.Background(), transfer.Memory{Bytes: n.mem, FD: -1, Access: transport.AccessRemote})
		require.NoError(w.t, err)
		require.NoError(w.t, n.Publish(context.Background()))
	}
	w.t.Cleanup(func() { n.stop(w.t) })
	return n
}

func (n *node) stop(t testing.TB) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, n.Close(ctx))
}

func (n *node) move(kind transport.OpKind, peer *node, off int, local []byte) error {
	return n.Transfer(context.Background(), []transfer.Request{{Kind: kind, Local: local, Peer: peer.name, Addr: peer.base + uint64(off)}})[0].Err
}

func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = seed + byte(i*7) + byte(i>>8)
	}
	return b
}

func addrOf(b []byte) uint64 { return memory.AddrOf(b) }
