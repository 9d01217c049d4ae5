package micro

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

func manifest(kind string) plugin.Manifest {
	return plugin.Manifest{Format: 1, ID: plugin.ID{Kind: kind, Name: "plain"}, Version: "1.0.0", API: []uint{1}, Summary: "for a test", Stability: plugin.Experimental}
}

// running counts starts less stops.
type running struct{ n int }

func (r *running) Start(context.Context, plugin.Host) error { r.n++; return nil }
func (r *running) Stop(context.Context) error               { r.n--; return nil }

// fifo ranks by age of insertion.
type fifo struct {
	running
	queue    []evict.ID
	proposed []evict.ID
	lazy     bool // proposes nothing
}

func (f *fifo) factory() evict.Factory {
	return evict.Define(manifest(plugin.KindEvict), func() *plugin.NoConfig { return &plugin.NoConfig{} }, func(*plugin.NoConfig) (evict.Policy, error) { return f, nil })
}

func (f *fifo) Record(_ context.Context, events []evict.Event) error {
	for _, e := range events {
		if e.Op == evict.Insert {
			f.queue = append(f.queue, e.ID)
		}
	}
	return nil
}

func (f *fifo) Propose(_ context.Context, dst []evict.Candidate, bytes uint64) ([]evict.Candidate, error) {
	for range bytes {
		if f.lazy || len(f.queue) == 0 {
			break
		}
		dst = append(dst, evict.Candidate{ID: f.queue[0], Size: 1})
		f.proposed = append(f.proposed, f.queue[0])
		f.queue = f.queue[1:]
	}
	return dst, nil
}

func (f *fifo) Resolve(_ context.Context, verdicts []evict.Verdict) error {
	for _, v := range verdicts {
		if !v.Evicted {
			f.queue = append(f.queue, v.ID)
		}
	}
	f.proposed = nil
	return nil
}

func (f *fifo) Stats(context.Context) (evict.Stats, error) {
	return evict.Stats{Objects: uint64(len(f.queue)), Proposed: uint64(len(f.proposed))}, nil
}

// bump only counts up, and reuses what was freed last.
type bump struct {
	running
	next  uint64
	free  map[uint64][]uint64
	live  map[uint64]bool
	small bool // has no space
}

func (b *bump) factory() alloc.Factory {
	b.free, b.live = map[uint64][]uint64{}, map[uint64]bool{}
	return alloc.Define(manifest(plugin.KindAlloc), func() *plugin.NoConfig { return &plugin.NoConfig{} }, func(*plugin.NoConfig) (alloc.Allocator, error) { return b, nil })
}

func (b *bump) AddSpace(context.Context, alloc.Space) error               { return nil }
func (b *bump) RemoveSpace(context.Context, alloc.SpaceID) error          { return nil }
func (b *bump) Stats(context.Context, alloc.SpaceID) (alloc.Stats, error) { return alloc.Stats{}, nil }
func (b *bump) Reserve(context.Context, []alloc.Extent) ([]error, error)  { return nil, nil }

func (b *bump) Alloc(_ context.Context, requests []alloc.Request) ([]alloc.Result, error) {
	out := make([]alloc.Result, len(requests))
	for i, r := range requests {
		if b.small {
			out[i].Err = errs.NoAvailableHandle.Err()
			continue
		}
		at := b.next
		if f := b.free[r.Size]; len(f) > 0 {
			at, b.free[r.Size] = f[len(f)-1], f[:len(f)-1]
		} else {
			b.next += (r.Size + 4095) &^ 4095
		}
		b.live[at] = true
		out[i].Extent = alloc.Extent{Space: r.Candidates[0], Offset: at, Size: r.Size}
	}
	return out, nil
}

func (b *bump) Free(_ context.Context, extents []alloc.Extent) ([]error, error) {
	for _, e := range extents {
		if !b.live[e.Offset] {
			return nil, fmt.Errorf("free of %v, which is not allocated", e)
		}
		delete(b.live, e.Offset)
		b.free[e.Size] = append(b.free[e.Size], e.Offset)
	}
	return nil, nil
}

// wires connects transports of one process by copying. It refuses what the contract says
// must be refused, and counts.
type wires struct {
	all  []*wire
	most int // operations in flight on one path
	ops  int // accepted so far
	// spoil may change a completion and the bytes that arrived.
	spoil func(op transport.Op, peer []byte, c *transport.Completion)
}

func (w *wires) factory() transport.Factory {
	return transport.Define(manifest(plugin.KindTransport), func() *plugin.NoConfig { return &plugin.NoConfig{} }, func(*plugin.NoConfig) (transport.Transport, error) {
		t := &wire{net: w, number: byte(len(w.all))}
		w.all = append(w.all, t)
		return t, nil
	})
}

type wire struct {
	running
	net     *wires
	number  byte
	regions []transport.Region
	paths   int
}

func (t *wire) Endpoint() transport.Endpoint {
	return transport.Endpoint{Blob: []byte{t.number}, Incarnation: 1}
}

func (t *wire) Register(_ context.Context, r transport.Region) (transport.Key, error) {
	t.regions = append(t.regions, r)
	return transport.Key{byte(r.ID)}, nil
}

func (t *wire) Deregister(_ context.Context, id transport.RegionID) error {
	t.regions = slices.DeleteFunc(t.regions, func(r transport.Region) bool { return r.ID == id })
	return nil
}

func (t *wire) Dial(_ context.Context, peer transport.Endpoint) (transport.Path, error) {
	t.paths++
	return &wirePath{near: t, far: t.net.all[peer.Blob[0]]}, nil
}

type wirePath struct {
	near, far *wire
	mu        sync.Mutex
	done      []transport.Completion
}

func (p *wirePath) Import(_ context.Context, k transport.Key) (transport.RemoteID, error) {
	return transport.RemoteID(k[0]), nil
}

// Submit takes at most five operations at a time: back-pressure.
func (p *wirePath) Submit(ops []transport.Op) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, op := range ops {
		if i == 5 {
			return i, nil
		}
		p.near.net.ops++
		peer := p.far.regions[0].Mem[op.Offset:][:len(op.Local)]
		if op.Kind == transport.Write {
			copy(peer, op.Local)
		} else {
			copy(op.Local, peer)
		}
		c := transport.Completion{ID: op.ID, Status: transport.OK}
		if p.near.net.spoil != nil {
			p.near.net.spoil(op, peer, &c)
		}
		p.done = append(p.done, c)
		p.near.net.most = max(p.near.net.most, len(p.done))
	}
	return len(ops), nil
}

func (p *wirePath) Reap(ctx context.Context, dst []transport.Completion) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.done) == 0 {
		return 0, fmt.Errorf("reap with nothing in flight: %w", context.Cause(ctx))
	}
	n := copy(dst[:min(3, len(dst))], p.done)
	p.done = p.done[n:]
	return n, nil
}

func (p *wirePath) Close(context.Context) error {
	p.near.paths--
	return nil
}
