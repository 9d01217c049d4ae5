package wire

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// fifo is a small but real policy: first in, first proposed.
type fifo struct {
	mu       sync.Mutex
	cfg      *fifoConfig
	order    []evict.Candidate
	proposed map[evict.ID]uint64
	events   int
	accesses int

	host plugin.Host
	// gate, when set, holds Propose until it is closed.
	gate chan struct{}
	// entered, when set, is sent to by a Propose that is about to wait for the gate.
	entered chan struct{}
	// fail, when set, is what Record answers.
	fail error
}

type fifoConfig struct {
	Shards int `json:"shards"`
	Inner  struct {
		Depth int `json:"depth"`
	} `json:"inner"`
	Names map[string]fifoName `json:"names"`
	List  []fifoName          `json:"list"`
}

type fifoName struct {
	Weight float64 `json:"weight"`
}

func (c *fifoConfig) Validate() error {
	if c.Shards < 1 {
		return errors.New("shards must be at least 1")
	}
	return nil
}

func (p *fifo) Start(_ context.Context, h plugin.Host) error { p.host = h; return nil }
func (p *fifo) Stop(context.Context) error                   { return nil }

func (p *fifo) Record(_ context.Context, events []evict.Event) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fail != nil {
		return p.fail
	}
	p.events += len(events)
	for _, e := range events {
		switch e.Op {
		case evict.Insert:
			p.order = append(p.order, evict.Candidate{ID: e.ID, Size: e.Size})
		case evict.Access:
			p.accesses++
		}
	}
	return nil
}

func (p *fifo) Propose(_ context.Context, dst []evict.Candidate, bytes uint64) ([]evict.Candidate, error) {
	if p.entered != nil {
		p.entered <- struct{}{}
	}
	if p.gate != nil {
		<-p.gate
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for sum := uint64(0); sum < bytes && len(dst) < cap(dst) && len(p.order) > 0; {
		c := p.order[0]
		p.order = p.order[1:]
		p.proposed[c.ID] = c.Size
		dst = append(dst, c)
		sum += c.Size
	}
	return dst, nil
}

func (p *fifo) Resolve(_ context.Context, verdicts []evict.Verdict) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, v := range verdicts {
		if size, ok := p.proposed[v.ID]; ok {
			delete(p.proposed, v.ID)
			if !v.Evicted {
				p.order = append(p.order, evict.Candidate{ID: v.ID, Size: size})
			}
		}
	}
	return nil
}

func (p *fifo) Stats(context.Context) (evict.Stats, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return evict.Stats{Objects: uint64(len(p.order) + len(p.proposed)), Proposed: uint64(len(p.proposed))}, nil
}

// bump is a small but real allocator: spaces are filled from the front.
type bump struct {
	mu   sync.Mutex
	next map[alloc.SpaceID]uint64
	live map[alloc.Extent]bool
	gate chan struct{}
	// lie, when set, changes every extent that is given out.
	lie func(*alloc.Extent)
}

func newBump() *bump {
	return &bump{next: map[alloc.SpaceID]uint64{}, live: map[alloc.Extent]bool{}}
}

func (b *bump) Start(context.Context, plugin.Host) error { return nil }
func (b *bump) Stop(context.Context) error               { return nil }

func (b *bump) AddSpace(_ context.Context, s alloc.Space) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.next[s.ID]; ok || s.Size == 0 {
		return errs.New(errs.InvalidParams, "bump: add space", "space %d is empty or known", s.ID)
	}
	b.next[s.ID] = 0
	return nil
}

func (b *bump) RemoveSpace(_ context.Context, id alloc.SpaceID) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.next[id]; !ok {
		return errs.New(errs.SegmentNotFound, "bump: remove space", "no space %d", id)
	}
	delete(b.next, id)
	return nil
}

func (b *bump) Alloc(_ context.Context, requests []alloc.Request) ([]alloc.Result, error) {
	if b.gate != nil {
		<-b.gate
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]alloc.Result, len(requests))
	for i, r := range requests {
		if len(r.Candidates) == 0 {
			out[i].Err = errs.New(errs.NoAvailableHandle, "bump: alloc", "nothing fits")
			continue
		}
		at := b.next[r.Candidates[0]]
		if r.Align > 1 {
			at = (at + r.Align - 1) / r.Align * r.Align
		}
		e := alloc.Extent{Space: r.Candidates[0], Offset: at, Size: r.Size}
		b.next[e.Space] = at + r.Size
		b.live[e] = true
		if b.lie != nil {
			b.lie(&e)
		}
		out[i].Extent = e
	}
	return out, nil
}

func (b *bump) Free(_ context.Context, extents []alloc.Extent) ([]error, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	items := make([]error, len(extents))
	for i, e := range extents {
		if !b.live[e] {
			items[i] = errs.New(errs.InvalidWrite, "bump: free", "extent at %d is not allocated", e.Offset)
		}
		delete(b.live, e)
	}
	return items, nil
}

func (b *bump) Reserve(_ context.Context, extents []alloc.Extent) ([]error, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range extents {
		b.live[e] = true
	}
	return nil, nil
}

func (b *bump) Stats(_ context.Context, id alloc.SpaceID) (alloc.Stats, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.next[id]; !ok {
		return alloc.Stats{}, errs.New(errs.SegmentNotFound, "bump: stats", "no space %d", id)
	}
	return alloc.Stats{Extents: uint64(len(b.live)), LargestFree: 5}, nil
}

func testManifest(kind, name string) plugin.Manifest {
	return plugin.Manifest{
		Format: 1, ID: plugin.ID{Kind: kind, Name: name}, Version: "0.1.0", API: []uint{1},
		Summary: "for tests", Stability: plugin.Experimental,
	}
}

func fifoFactory(p *fifo) evict.Factory {
	p.proposed = map[evict.ID]uint64{}
	return evict.Define(testManifest("evict", "fifo"), func() *fifoConfig { return &fifoConfig{Shards: 4} },
		func(c *fifoConfig) (evict.Policy, error) { p.cfg = c; return p, nil })
}

func bumpFactory(b *bump) alloc.Factory {
	return alloc.Define(testManifest("alloc", "bump"), func() *plugin.NoConfig { return &plugin.NoConfig{} },
		func(*plugin.NoConfig) (alloc.Allocator, error) { return b, nil })
}

// dial serves f on an in-memory listener and returns a connection to it.
func dial(t *testing.T, f plugin.Factory) (*grpc.ClientConn, *grpc.Server) {
	t.Helper()
	srv, err := NewServer(f, ServerOptions{})
	require.NoError(t, err)
	gs := grpc.NewServer(GRPCServerOptions()...)
	srv.Register(gs)
	lis := bufconn.Listen(64 << 10)
	var wg sync.WaitGroup
	wg.Go(func() { _ = gs.Serve(lis) })
	conn, err := grpc.NewClient("passthrough:buf", append(GRPCDialOptions(),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = conn.Close()
		_ = srv.Close(context.Background())
		gs.Stop()
		wg.Wait()
	})
	return conn, gs
}

func dialFifo(t *testing.T, p *fifo, o ClientOptions) *Evict {
	t.Helper()
	conn, _ := dial(t, fifoFactory(p))
	o.ID = plugin.ID{Kind: "evict", Name: "fifo"}
	e := NewEvict(conn, o)
	require.NoError(t, e.Configure(t.Context(), 1, nil))
	return e
}

func dialBump(t *testing.T, b *bump, o ClientOptions) *Alloc {
	t.Helper()
	conn, _ := dial(t, bumpFactory(b))
	o.ID = plugin.ID{Kind: "alloc", Name: "bump"}
	a := NewAlloc(conn, o)
	require.NoError(t, a.Configure(t.Context(), 1, nil))
	return a
}
