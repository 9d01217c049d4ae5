package transporttest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/internal/rig"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

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
	ctx, cancel := context.WithTimeout(context.Background(), conformance.Patience(t))
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
	require.NoError(t, plugin.Validate(cfg))
	tr, err := s.f.New(cfg)
	require.NoError(t, err)
	tr = &watched{tr, t}
	t.Cleanup(func() {
		if err := tr.Stop(context.Background()); err != nil {
			t.Errorf("Stop may come at any time and must not fail, but at the end of the check it returned: %v", err)
		}
	})
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

// localShared is local with memory that has a descriptor.
func (s *suite) localShared(t conformance.TB, tr transport.Transport, id transport.RegionID, size int) []byte {
	mem := s.memory(t, size)
	_, err := tr.Register(within(t), s.region(id, mem, transport.AccessLocal))
	require.NoError(t, err)
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
	ctx, cancel := context.WithTimeout(context.Background(), conformance.Patience(t))
	defer cancel()
	out := map[uint64]transport.Completion{}
	l := ledger{}
	buf := make([]transport.Completion, 16)
	for len(ops) > 0 || len(l.open) > 0 {
		n, err := p.Submit(ops)
		if err != nil {
			t.Fatalf("Submit refuses %s: %v", opText(ops[n]), err)
		}
		l.accept(ops[:n])
		ops = ops[n:]
		got, err := p.Reap(ctx, buf)
		l.reap(t, buf[:got], err)
		for _, c := range buf[:got] {
			out[c.ID] = c
		}
	}
	return out
}

// ledger holds the operations of a path that were accepted and have not completed.
type ledger struct {
	open     map[uint64]transport.Op
	accepted int
	done     map[uint64]bool
}

func (l *ledger) accept(ops []transport.Op) {
	if l.open == nil {
		l.open, l.done = map[uint64]transport.Op{}, map[uint64]bool{}
	}
	l.accepted += len(ops)
	for _, o := range ops {
		l.open[o.ID] = o
		delete(l.done, o.ID)
	}
}

// reap takes what Reap returned. It fails the check for an error, and for a completion of an operation that was not in
// flight.
func (l *ledger) reap(t conformance.TB, got []transport.Completion, err error) {
	if err != nil {
		t.Fatalf("%s; Reap returned: %v", missingText(l.open, l.accepted), err)
	}
	for _, c := range got {
		if _, open := l.open[c.ID]; !open {
			what := "which was not submitted"
			if l.done[c.ID] {
				what = "which had completed: it completed twice"
			}
			t.Fatalf("a completion came for operation %d, %s", c.ID, what)
		}
		delete(l.open, c.ID)
		l.done[c.ID] = true
		wellFormed(t, c)
	}
}

// drain reaps until no operation is in flight, and returns the completions by op ID.
func (l *ledger) drain(t conformance.TB, p transport.Path) map[uint64]transport.Completion {
	ctx, cancel := context.WithTimeout(context.Background(), conformance.Patience(t))
	defer cancel()
	out := map[uint64]transport.Completion{}
	buf := make([]transport.Completion, 16)
	for len(l.open) > 0 {
		n, err := p.Reap(ctx, buf)
		l.reap(t, buf[:n], err)
		for _, c := range buf[:n] {
			out[c.ID] = c
		}
	}
	return out
}

// must runs operations and requires each to end OK.
func must(t conformance.TB, p transport.Path, ops ...transport.Op) {
	done := do(t, p, ops...)
	for _, o := range ops {
		if c := done[o.ID]; c.Status != transport.OK {
			t.Fatalf("%s is %s; it must be OK", opText(o), endText(c))
		}
	}
}

// fails runs one operation and requires it to fail, in one of the classes.
func fails(t conformance.TB, p transport.Path, o transport.Op, classes ...errs.Class) transport.Completion {
	c := do(t, p, o)[o.ID]
	if c.Status == transport.OK || !slices.Contains(classes, c.Class()) {
		t.Fatalf("%s is %s; it must not succeed but fail with class %s", opText(o), endText(c), classesText(classes))
	}
	return c
}

// wellFormed checks what holds for every completion.
func wellFormed(t conformance.TB, c transport.Completion) {
	var e *errs.Error
	switch {
	case c.Status == transport.OK && c.Err == nil:
	case c.Status == transport.OK:
		t.Fatalf("operation %d is OK and has an error: %v", c.ID, c.Err)
	case c.Status != transport.Failed && c.Status != transport.Quarantined:
		t.Fatalf("operation %d has %s; a completion is OK, Failed or Quarantined", c.ID, c.Status)
	case !errors.As(c.Err, &e) || e.Code >= 0:
		t.Fatalf("operation %d is %s with the error %q; a failure carries a code and a class (package errs)", c.ID, c.Status, fmt.Sprint(c.Err))
	}
}

func code(err error) errs.Code { return errs.CodeOf(err) }

func ended(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// SealedMemory is shared memory for WithSharedMemory: a sealed memory file.
func SealedMemory(t conformance.TB, size int) (mem []byte, fd int) { return rig.SealedMemory(t, size) }
