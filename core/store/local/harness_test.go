package local_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store/client"
	"github.com/mooncake-go/mooncake/core/store/local"
	"github.com/mooncake-go/mooncake/core/store/local/serve"
	"github.com/mooncake-go/mooncake/core/store/node"
	"github.com/mooncake-go/mooncake/core/store/session"
	"github.com/mooncake-go/mooncake/core/transfer"
	arena "github.com/mooncake-go/mooncake/plugins/alloc-arena"
	lru "github.com/mooncake-go/mooncake/plugins/evict-lru"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// roleVariable makes this test binary one of the processes that the tests start.
const roleVariable = "MOONCAKE_LOCAL_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(child(role, os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}

type host struct{}

func (host) Logger() *slog.Logger { return slog.New(slog.DiscardHandler) }
func (host) Report(plugin.Health) {}

// directory is a metadata service in memory, seen by one process.
type directory struct {
	name    string
	mu      *sync.Mutex
	entries map[string]*metadata.Descriptor
}

func (d directory) LocalName() string           { return d.name }
func (d directory) Close(context.Context) error { return nil }

func (d directory) Publish(_ context.Context, e *metadata.Descriptor) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entries[d.name] = e
	return nil
}

func (d directory) Lookup(_ context.Context, name string) (*metadata.Descriptor, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.entries[name]; e != nil {
		return e, nil
	}
	return nil, metadata.ErrNotFound
}

func (d directory) Withdraw(context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.entries, d.name)
	return nil
}

// pool is a master, two nodes that contribute memory, and a client, with a network between
// them, all in this process.
type pool struct {
	client *client.Client
	wire   *memtransport.Transport // the client's
	stops  []func(context.Context) error
}

func newPool(segment uint64) (*pool, error) {
	ctx, p := context.Background(), &pool{}
	a, err := arena.Factory().New(arena.Factory().DefaultConfig())
	if err != nil {
		return nil, err
	}
	e, err := lru.Factory().New(lru.Factory().DefaultConfig())
	if err != nil {
		return nil, err
	}
	for _, c := range []plugin.Component{a, e} {
		if err := c.Start(ctx, host{}); err != nil {
			return nil, err
		}
		p.stops = append(p.stops, c.Stop)
	}
	cfg := master.DefaultConfig()
	cfg.MetricReporting = false
	m, err := master.New(cfg, master.Deps{Alloc: a, Evict: e, Log: host{}.Logger()})
	if err != nil {
		return nil, err
	}
	if err := m.Start(ctx); err != nil {
		return nil, err
	}
	p.stops = append(p.stops, m.Stop)
	net, mu, entries := memtransport.NewNetwork(), &sync.Mutex{}, map[string]*metadata.Descriptor{}
	member := func(name string) (session.Deps, error) {
		w := net.New(name)
		if name == "client:1" {
			p.wire = w
		}
		eng, err := transfer.New(transfer.DefaultConfig(), transfer.Deps{
			Directory: directory{name, mu, entries}, Log: host{}.Logger(), Carriers: []transfer.Carrier{{Name: "mem", Transport: w}},
		})
		if err == nil {
			p.stops = append(p.stops, eng.Close)
		}
		return session.Deps{ID: model.NewUUID(), Master: m, Engine: eng, Log: host{}.Logger()}, err
	}
	for _, name := range []string{"node:1", "node:2"} {
		nd, err := member(name)
		if err != nil {
			return nil, err
		}
		ncfg := node.DefaultConfig()
		ncfg.Segments = []uint64{segment}
		n, err := node.New(ncfg, nd)
		if err != nil {
			return nil, err
		}
		if err := n.Start(ctx); err != nil {
			return nil, err
		}
		p.stops = append(p.stops, n.Stop)
	}
	cd, err := member("client:1")
	if err != nil {
		return nil, err
	}
	if p.client, err = client.New(client.DefaultConfig(), cd); err != nil {
		return nil, err
	}
	p.stops = append(p.stops, p.client.Close)
	return p, nil
}

func (p *pool) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for i := len(p.stops) - 1; i >= 0; i-- {
		if err := p.stops[i](ctx); err != nil {
			return err
		}
	}
	return nil
}

const segment = 256 << 20

func startPool(t testing.TB) *pool {
	t.Helper()
	p, err := newPool(segment)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.stop()) })
	return p
}

var sockets atomic.Int64

func newSocket() string {
	return fmt.Sprintf("@mooncake-local-test-%d-%d", os.Getpid(), sockets.Add(1))
}

// startServer serves a client in this process.
func startServer(t testing.TB, p *pool, change func(*serve.Config)) (*serve.Server, string) {
	t.Helper()
	socket := newSocket()
	s, err := launch(p, socket, change)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, halt(s)) })
	return s, socket
}

func launch(p *pool, socket string, change func(*serve.Config)) (*serve.Server, error) {
	cfg := serve.DefaultConfig(socket)
	cfg.LendSize = 32 << 20
	if change != nil {
		change(&cfg)
	}
	s, err := serve.New(cfg, serve.Deps{Client: p.client, Log: host{}.Logger(), Version: "test"})
	if err != nil {
		return nil, err
	}
	return s, s.Start(context.Background())
}

func halt(s *serve.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return s.Stop(ctx)
}

// attach attaches a client to a socket.
func attach(t testing.TB, socket string, change func(*local.Config)) (*local.Client, *local.Allocator) {
	t.Helper()
	a := &local.Allocator{}
	cfg := local.DefaultConfig(socket)
	cfg.Allocator = a
	if change != nil {
		change(&cfg)
	}
	c, err := local.Attach(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, closeClient(c)) })
	return c, a
}

func closeClient(c *local.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return c.Close(ctx)
}

// content is the value that belongs to a key, so that wrong bytes are found without keeping
// a copy.
func content(key string, size int) []byte {
	b := make([]byte, size)
	fill(b, key)
	return b
}

func fill(b []byte, key string) {
	h := uint64(14695981039346656037)
	for i := range key {
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	var word [8]byte
	for i := 0; i < len(b); i += 8 {
		h = h*6364136223846793005 + 1442695040888963407
		binary.LittleEndian.PutUint64(word[:], h^h>>29)
		copy(b[i:], word[:])
	}
}

var one = model.DefaultReplicateConfig()
