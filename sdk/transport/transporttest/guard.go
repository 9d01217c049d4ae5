package transporttest

import (
	"bytes"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/internal/rig"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// gate is a guard that lets writes begin in [from, to), except where another write is in progress:
// bytes of a quarantined operation may still arrive during the next one.
type gate struct {
	mu       sync.Mutex
	from, to uint64
	cut      bool // cuts each write that begins
	last     transport.WriteID
	open     map[transport.WriteID]extent
	begun    int
}

func (g *gate) set(from, to uint64, cut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.from, g.to, g.cut = from, to, cut
}

// extent is the part of a region that a write covers.
type extent struct{ from, to uint64 }

// BeginWrite implements transport.Guard.
func (g *gate) BeginWrite(offset, size uint64, by transport.Writer) transport.WriteID {
	g.mu.Lock()
	defer g.mu.Unlock()
	if offset < g.from || offset+size > g.to {
		return 0
	}
	for _, o := range g.open {
		if offset < o.to && offset+size > o.from {
			return 0
		}
	}
	g.last++
	g.begun++
	g.open[g.last] = extent{from: offset, to: offset + size}
	if g.cut {
		by.Cut()
	}
	return g.last
}

// EndWrite implements transport.Guard. One that ends twice stays in progress for the check.
func (g *gate) EndWrite(id transport.WriteID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.open[id]; ok {
		delete(g.open, id)
	} else {
		g.open[id] = extent{}
	}
}

// idle waits until all writes that began have ended.
func (g *gate) idle(t conformance.T) {
	require.Eventually(t, func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.begun > 0 && len(g.open) == 0
	}, conformance.Patience(t), time.Millisecond, "each write that began ends once")
}

// guarded registers zeros with a gate.
func (s *suite) guarded(t conformance.T, tr transport.Transport, size int) ([]byte, transport.Key, *gate) {
	if !s.f.Manifest().Has(transport.CapGuard) {
		t.Skip("the transport does not have the capability " + string(transport.CapGuard))
	}
	mem, g := s.memory(t, size), &gate{to: uint64(size), open: map[transport.WriteID]extent{}}
	r := s.region(1, mem, transport.AccessRemote)
	r.Guard = g
	key, err := tr.Register(within(t), r)
	if errs.CodeOf(err) == errs.NotSupported {
		t.Skip("the transport runs in a process of its own, which does not ask the guard")
	}
	require.NoError(t, err)
	return mem, key, g
}

func (s *suite) guard(t conformance.T) {
	const from, to, size = 100_000, 200_000, 300_000
	server, client := s.start(t), s.start(t)
	mem, key, g := s.guarded(t, server, size)
	p, ids := dial(t, client, server, key)
	buf := s.local(t, client, 1, size)
	fill(buf, 5)
	write := func(at, end int) transport.Op {
		return transport.Op{ID: 1, Kind: transport.Write, Local: buf[at:end], Remote: ids[0], Offset: uint64(at)}
	}
	g.set(from, to, false)
	must(t, p, write(from, to))
	require.Equal(t, buf[from:to], mem[from:to])
	g.idle(t)
	clear(mem)
	for name, o := range rig.Ordered(map[string]transport.Op{
		"before": write(0, from), "its last byte before": write(from-1, from), "behind": write(to, size), "one byte too many": write(to-1, to+1), "around": write(0, size),
	}) {
		fails(t, p, o, errs.ClassPermanent)
		require.Equal(t, make([]byte, from), mem[:from], name)
		require.Equal(t, make([]byte, size-to), mem[to:], name)
	}
	g.idle(t)
	clear(mem)
	g.set(0, 0, false)
	fails(t, p, write(from, to), errs.ClassPermanent)
	require.Equal(t, make([]byte, size), mem, "a write that is refused changes no byte")
	fill(mem, 6)
	before := bytes.Clone(mem)
	must(t, p, transport.Op{ID: 2, Kind: transport.Read, Local: buf, Remote: ids[0]})
	require.Equal(t, before, buf, "reads are not refused")
	g.set(0, size, false)
	fill(buf, 7)
	must(t, p, write(0, size))
	require.Equal(t, buf, mem)
	g.idle(t)
}

func (s *suite) guardCuts(t conformance.T) {
	const size = 900_000
	server, client := s.start(t), s.start(t)
	mem, key, g := s.guarded(t, server, size)
	p, ids := dial(t, client, server, key)
	buf := s.local(t, client, 1, size)
	fill(buf, 5)
	write := transport.Op{ID: 1, Kind: transport.Write, Local: buf, Remote: ids[0]}
	g.set(0, size, true)
	do(t, p, write) // However it ends.
	g.idle(t)
	g.set(0, size, false)
	require.Eventually(t, func() bool { return do(t, p, write)[1].Status == transport.OK }, conformance.Patience(t), time.Millisecond, "what was cut works again")
	g.set(0, 0, false) // Late bytes of the write that was cut are refused from here on.
	g.idle(t)
	require.Equal(t, buf, mem)
}
