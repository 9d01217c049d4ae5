package transporttest

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// patience bounds each wait of the suite; reaching it is a failure, never a result.
const patience = 30 * time.Second

type suite struct {
	options
	f      transport.Factory
	blocks []block // of WithSharedMemory
	frees  []func()
}

// one runs one check. It frees the memory of WithSharedMemory after it has stopped the transports
// that may touch it, in whatever order the check created them.
func (s *suite) one(t conformance.T, run func(*suite, conformance.T)) {
	own := *s
	own.blocks, own.frees = nil, nil
	t.Cleanup(func() {
		for _, free := range slices.Backward(own.frees) {
			free()
		}
	})
	run(&own, t)
}

// lasting is a TB whose cleanups run after the transports of a check have stopped.
type lasting struct {
	conformance.TB
	s *suite
}

// Cleanup implements conformance.TB.
func (l lasting) Cleanup(f func()) { l.s.frees = append(l.s.frees, f) }

// host is the host of a transport. It drops logs and health reports.
type host struct{ security security.Settings }

func (host) Logger() *slog.Logger { return slog.New(slog.DiscardHandler) }
func (host) Report(plugin.Health) {}

// Security implements security.Host.
func (h host) Security() security.Settings { return h.security }

// host returns the host of every transport of the suite.
func (s *suite) host() plugin.Host { return host{s.security} }

func within(t conformance.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func (s *suite) settings() plugin.Config {
	if s.config != nil {
		return s.config()
	}
	return s.f.DefaultConfig()
}

func (s *suite) create(t conformance.TB, cfg plugin.Config) transport.Transport {
	require.NoError(t, cfg.Validate())
	tr, err := s.f.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tr.Stop(context.Background())) })
	return tr
}

// start returns a running transport that stops at the end of t.
func (s *suite) start(t conformance.TB) transport.Transport {
	tr := s.create(t, s.settings())
	require.NoError(t, tr.Start(within(t), s.host()))
	return tr
}

// register publishes memory of size bytes, filled from seed.
func (s *suite) register(t conformance.TB, tr transport.Transport, id transport.RegionID, size int, access transport.Access) ([]byte, transport.Key) {
	mem := s.memory(t, size)
	fill(mem, uint64(id))
	key, err := tr.Register(within(t), s.region(id, mem, access))
	require.NoError(t, err)
	return mem, key
}

// registerBlank publishes zeros, for regions that are too large to fill each time.
func (s *suite) registerBlank(t conformance.TB, tr transport.Transport, id transport.RegionID, size int) ([]byte, transport.Key) {
	mem := s.memory(t, size)
	key, err := tr.Register(within(t), s.region(id, mem, transport.AccessRemote))
	require.NoError(t, err)
	return mem, key
}

// memory returns zeroed memory that can be registered for peers.
func (s *suite) memory(t conformance.TB, size int) []byte {
	if s.shared == nil {
		return make([]byte, size)
	}
	mem, fd := s.shared(lasting{t, s}, size)
	require.Len(t, mem, size)
	s.blocks = append(s.blocks, block{mem: mem, fd: fd})
	return mem
}

// block is memory with a descriptor.
type block struct {
	mem []byte
	fd  int
}

// region describes memory and its descriptor, if any, for Register.
func (s *suite) region(id transport.RegionID, mem []byte, access transport.Access) transport.Region {
	r := transport.Region{ID: id, Mem: mem, FD: -1, Location: "*", Access: access}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	for i := len(s.blocks) - 1; i >= 0; i-- { // The latest first: a new block may reuse the memory of an old one.
		b := s.blocks[i]
		start := uintptr(unsafe.Pointer(unsafe.SliceData(b.mem)))
		if at >= start && at-start < uintptr(len(b.mem)) {
			r.FD, r.FDOffset = b.fd, int64(at-start)
			break
		}
	}
	return r
}

// local returns memory that operations of tr may use as their local side.
func (s *suite) local(t conformance.TB, tr transport.Transport, id transport.RegionID, size int) []byte {
	mem := make([]byte, size)
	if !s.f.Manifest().Has(transport.CapLocalAny) && size > 0 {
		_, err := tr.Register(within(t), s.region(id, mem, transport.AccessLocal))
		require.NoError(t, err)
	}
	return mem
}

// dial opens a path and imports the keys. The path is closed at the end of t.
func dial(t conformance.TB, from, to transport.Transport, keys ...transport.Key) (transport.Path, []transport.RemoteID) {
	return dialAt(t, from, to.Endpoint(), keys...)
}

func dialAt(t conformance.TB, from transport.Transport, to transport.Endpoint, keys ...transport.Key) (transport.Path, []transport.RemoteID) {
	p, err := from.Dial(within(t), to)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close(context.Background())) })
	ids := make([]transport.RemoteID, len(keys))
	for i, k := range keys {
		ids[i], err = p.Import(within(t), k)
		require.NoError(t, err)
	}
	return p, ids
}

// fill writes bytes that depend on seed and on their position.
func fill(b []byte, seed uint64) {
	x := seed*0x9e3779b97f4a7c15 + 1
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
}

// do runs operations to their end and returns the completions by op ID.
func do(t conformance.TB, p transport.Path, ops ...transport.Op) map[uint64]transport.Completion {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out := map[uint64]transport.Completion{}
	buf := make([]transport.Completion, 16)
	for open := 0; len(ops) > 0 || open > 0; {
		n, err := p.Submit(ops)
		require.NoError(t, err)
		ops, open = ops[n:], open+n
		got, err := p.Reap(ctx, buf)
		require.NoError(t, err)
		for _, c := range buf[:got] {
			require.NotContains(t, out, c.ID, "completed twice")
			wellFormed(t, c)
			out[c.ID] = c
		}
		open -= got
	}
	return out
}

// must runs operations and requires each to end OK.
func must(t conformance.TB, p transport.Path, ops ...transport.Op) {
	for id, c := range do(t, p, ops...) {
		require.Equal(t, transport.OK, c.Status, "operation %d: %v", id, c.Err)
	}
}

// fails runs one operation and requires it to fail, in one of the classes.
func fails(t conformance.TB, p transport.Path, o transport.Op, classes ...errs.Class) transport.Completion {
	c := do(t, p, o)[o.ID]
	require.NotEqual(t, transport.OK, c.Status, "must not succeed")
	require.Contains(t, classes, c.Class(), "%v", c.Err)
	return c
}

// wellFormed checks what holds for every completion.
func wellFormed(t conformance.TB, c transport.Completion) {
	if c.Status == transport.OK {
		require.NoError(t, c.Err)
		return
	}
	require.Contains(t, []transport.Status{transport.Failed, transport.Quarantined}, c.Status)
	var e *errs.Error
	require.ErrorAs(t, c.Err, &e, "a failure carries a code and a class")
	require.Less(t, int32(e.Code), int32(0))
}

func code(err error) errs.Code { return errs.CodeOf(err) }

func ended(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
