package store_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/master/journal"
	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/client"
	"github.com/mooncake-go/mooncake/core/store/node"
	"github.com/mooncake-go/mooncake/core/store/session"
	"github.com/mooncake-go/mooncake/core/transfer"
	arena "github.com/mooncake-go/mooncake/plugins/alloc-arena"
	lru "github.com/mooncake-go/mooncake/plugins/evict-lru"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// host is what plugins of a test run in.
type host struct{}

func (host) Logger() *slog.Logger { return silent() }
func (host) Report(plugin.Health) {}

func silent() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// pool is a master, a network and a directory in one process.
type pool struct {
	t      testing.TB
	net    *memtransport.Network
	dir    *shared
	master *outage
	config func(*master.Config)
	stop   func()
	// follower connects to a master that follows another one, nil for none.
	follower func(address string) (store.Follower, error)
	log      *slog.Logger // of masters, clients and nodes; silent() if nil
}

func (p *pool) logger() *slog.Logger {
	if p.log == nil {
		return silent()
	}
	return p.log
}

func newPool(t testing.TB, configure func(*master.Config)) *pool {
	p := newPoolWithout(t, configure)
	p.boot()
	return p
}

// newPoolWithout is a pool without a master.
func newPoolWithout(t testing.TB, configure func(*master.Config)) *pool {
	p := &pool{t: t, net: memtransport.NewNetwork(), dir: &shared{entries: map[string]*metadata.Descriptor{}}, master: &outage{}, config: configure, stop: func() {}}
	t.Cleanup(func() { p.kill() })
	return p
}

// newLedgerPool is a pool with a ledger in the master's place.
func newLedgerPool(t testing.TB) (*pool, *ledger) {
	l := newLedger()
	p := &pool{t: t, net: memtransport.NewNetwork(), dir: &shared{entries: map[string]*metadata.Descriptor{}}, master: &outage{}}
	p.master.set(l)
	p.stop = func() {}
	return p, l
}

// boot starts a master that knows nothing.
func (p *pool) boot() {
	p.t.Helper()
	m, stop := p.newMaster(master.Deps{Boottime: func() journal.Instant { return journal.Instant(time.Now().UnixNano()) }}) // of the bubble
	p.master.set(m)
	p.stop = stop
}

// newMaster starts a master with real plugins.
func (p *pool) newMaster(deps master.Deps) (m *master.Service, stop func()) {
	p.t.Helper()
	ctx := context.Background()
	a, err := arena.Factory().New(arena.Factory().DefaultConfig())
	require.NoError(p.t, err)
	require.NoError(p.t, a.Start(ctx, host{}))
	e, err := lru.Factory().New(lru.Factory().DefaultConfig())
	require.NoError(p.t, err)
	require.NoError(p.t, e.Start(ctx, host{}))
	cfg := master.DefaultConfig()
	cfg.MetricReporting = false
	cfg.MaxOpenRatio = 0
	if p.config != nil {
		p.config(&cfg)
	}
	deps.Alloc, deps.Evict, deps.Log = a, e, p.logger()
	m, err = master.New(cfg, deps)
	require.NoError(p.t, err)
	require.NoError(p.t, m.Start(ctx))
	return m, sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(p.t, m.Stop(ctx))
		require.NoError(p.t, e.Stop(ctx))
		require.NoError(p.t, a.Stop(ctx))
	})
}

// kill ends the master as kill -9 does: it forgets everything.
func (p *pool) kill() {
	p.master.set(nil)
	p.stop()
}

// member is one process: an engine, a client, and a node where it contributes memory.
type member struct {
	*client.Client
	name    string
	wire    *memtransport.Transport
	engine  *transfer.Engine
	node    *node.Node
	metrics *prometheus.Registry
	deps    session.Deps
	session *session.Session
	stop    func()
	kill    func(context.Context) error // of the transport alone
}

type memberOptions struct {
	segments []uint64
	client   func(*client.Config)
	engine   func(*transfer.Config)
	node     func(*node.Config)
	early    bool           // the node need not find a master
	id       model.ClientID // a new one if zero
	vault    keeps          // keeps the memory of the node
	master   store.Master   // that of the pool if nil
	tiers    store.Tiers
	shm      bool // of a cluster: shared memory before tcp
	quic     bool // of a cluster: quic in the place of tcp
	// unguarded is a transport that does not ask the guards of memory.
	unguarded bool
	// wrap is put around the transport of a member of a pool.
	wrap func(transport.Transport) transport.Transport
	// fails, where it is set, gets the error with which the node does not start.
	fails *error
}

func (p *pool) member(name string, o memberOptions) *member {
	p.t.Helper()
	m := &member{name: name, wire: p.net.New(name), metrics: newRegistry()}
	wire := transport.Transport(m.wire)
	if o.wrap != nil {
		wire = o.wrap(wire)
	}
	ecfg := transfer.DefaultConfig()
	if o.engine != nil {
		o.engine(&ecfg)
	}
	var err error
	m.engine, err = transfer.New(ecfg, transfer.Deps{
		Directory: view{p.dir, name}, Log: silent(), Carriers: []transfer.Carrier{{Name: "mem", Transport: wire, LocalAny: true, Guards: !o.unguarded}},
	})
	require.NoError(p.t, err)
	if o.master == nil {
		o.master = p.master
	}
	m.deps = session.Deps{ID: model.NewUUID(), Master: o.master, Engine: m.engine, Log: p.logger(), Metrics: m.metrics, Followers: p.follower, Tiers: o.tiers}
	if !o.id.IsZero() {
		m.deps.ID = o.id
	}
	var kept *node.Kept
	if o.vault != nil {
		kept, err = node.OpenKept(context.Background(), o.vault.open, "pool", p.logger())
		require.NoError(p.t, err)
		m.deps.ID = kept.Client()
	}
	m.session, err = session.New(session.DefaultConfig(), m.deps)
	require.NoError(p.t, err)
	m.deps.Session = m.session
	cfg := client.DefaultConfig()
	sealForTest(p.t, &cfg)
	if o.client != nil {
		o.client(&cfg)
	}
	m.Client, err = client.New(cfg, m.deps)
	require.NoError(p.t, err)
	if len(o.segments) > 0 {
		ncfg := node.DefaultConfig()
		ncfg.Segments, ncfg.Kept = o.segments, kept
		if o.vault != nil {
			ncfg.HugePages = o.vault.pages()
		}
		if o.node != nil {
			o.node(&ncfg)
		}
		m.node, err = node.New(ncfg, m.deps)
		require.NoError(p.t, err)
		begin := m.node.Start
		if o.early {
			begin = m.node.Begin
		}
		if err = begin(context.Background()); o.fails != nil {
			*o.fails, err = err, nil
		}
		require.NoError(p.t, err)
	}
	m.stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(p.t, m.Client.Close(ctx))
		if m.node != nil {
			require.NoError(p.t, m.node.Stop(ctx))
		}
		m.session.Close()
		if kept != nil {
			require.NoError(p.t, kept.Close())
		}
		require.NoError(p.t, m.engine.Close(ctx))
	})
	p.t.Cleanup(m.stop)
	return m
}

// The layer-wise sessions of a member.
func (m *member) StartGets(ctx context.Context, keys []model.Key) []error {
	return m.Layers().StartGets(ctx, keys)
}

func (m *member) GetRanges(ctx context.Context, reads []store.Ranges) []model.Result[int] {
	return m.Layers().GetRanges(ctx, reads)
}

func (m *member) EndGets(ctx context.Context, keys []model.Key) error {
	return m.Layers().EndGets(ctx, keys)
}

func (m *member) StartPuts(ctx context.Context, keys []model.Key, sizes []uint64, cfg model.ReplicateConfig, groups []string) []error {
	return m.Layers().StartPuts(ctx, keys, sizes, cfg, groups)
}

func (m *member) PutRanges(ctx context.Context, writes []store.Ranges) []model.Result[int] {
	return m.Layers().PutRanges(ctx, writes)
}

func (m *member) EndPuts(ctx context.Context, keys []model.Key) []error {
	return m.Layers().EndPuts(ctx, keys)
}

func (m *member) RevokePuts(ctx context.Context, keys []model.Key) []error {
	return m.Layers().RevokePuts(ctx, keys)
}

// memoryOf returns the bytes of a node's first segment, to be damaged by tests.
func memoryOf(n *node.Node) []byte {
	s := n.Segments()[0]
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&s.Base)), int(s.Size))
}

// count reads a counter of a member.
func (m *member) count(t testing.TB, name string) int {
	t.Helper()
	all, err := m.metrics.Gather()
	require.NoError(t, err)
	for _, f := range all {
		if f.GetName() == name {
			return int(f.GetMetric()[0].GetCounter().GetValue())
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// gauge reads a gauge of a member.
func (m *member) gauge(t testing.TB, name string) int {
	t.Helper()
	all, err := m.metrics.Gather()
	require.NoError(t, err)
	for _, f := range all {
		if f.GetName() == name {
			return int(f.GetMetric()[0].GetGauge().GetValue())
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// shared is a metadata service in memory.
type shared struct {
	mu      sync.Mutex
	entries map[string]*metadata.Descriptor
	broken  error
}

func (s *shared) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.entries)
}

func (s *shared) knows(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries[name] != nil
}

type view struct {
	*shared
	name string
}

func (v view) LocalName() string { return v.name }

func (v view) Publish(_ context.Context, d *metadata.Descriptor) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.broken == nil {
		v.entries[v.name] = d
	}
	return v.broken
}

func (v view) Lookup(_ context.Context, name string) (*metadata.Descriptor, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.broken != nil {
		return nil, v.broken
	}
	if d := v.entries[name]; d != nil {
		return d, nil
	}
	return nil, metadata.ErrNotFound
}

func (v view) Withdraw(context.Context) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.entries, v.name)
	return nil
}

func (v view) Close(ctx context.Context) error { return v.Withdraw(ctx) }

var (
	one    = model.DefaultReplicateConfig()
	upsert = model.ReplicateConfig{ReplicaNum: 1, Upsert: true}
)

func two() model.ReplicateConfig { return model.ReplicateConfig{ReplicaNum: 2} }

// content is the value that belongs to a key, so that wrong bytes are found without
// keeping a copy.
func content(key string, size int) []byte {
	h := uint64(14695981039346656037)
	for i := range key {
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	b := make([]byte, size+8)
	for i := 0; i < size; i += 8 {
		h = h*6364136223846793005 + 1442695040888963407
		binary.LittleEndian.PutUint64(b[i:], h^h>>29)
	}
	return b[:size:size]
}

var errCut = errs.WithClass(errs.ClassTransientPath, "test", errors.New("cut"))

func withChecksum(on bool) func(*client.Config) {
	return func(c *client.Config) { c.Checksum = on || c.Seal.Algorithm != 0 }
}

func newRegistry() *prometheus.Registry { return prometheus.NewRegistry() }

// crcOf is the checksum of a value.
func crcOf(value []byte) model.Checksum {
	return model.Checksum{Kind: model.ChecksumCRC32C, Value: uint64(crc32c.Sum(value))}
}
