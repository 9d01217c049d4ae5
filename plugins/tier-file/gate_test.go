package file

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/aio"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// gate is a storage that holds requests back, or fails them. The rest goes to a real engine.
type gate struct {
	aio.Engine
	mu     sync.Mutex
	closed bool
	held   []*aio.Request
	fail   func(*aio.Request) error
	failed sync.WaitGroup
	opened sync.Cond
}

// Close waits for what is held back, as an engine does.
func (g *gate) Close(ctx context.Context) error {
	g.mu.Lock()
	for len(g.held) > 0 {
		g.opened.Wait()
	}
	g.mu.Unlock()
	g.failed.Wait()
	return g.Engine.Close(ctx)
}

func (g *gate) Submit(rs ...*aio.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range rs {
		switch err := error(nil); {
		case g.closed:
			g.held = append(g.held, r)
		default:
			if g.fail != nil {
				err = g.fail(r)
			}
			if err != nil {
				g.failed.Go(func() { r.Done(err) })
			} else {
				g.Engine.Submit(r)
			}
		}
	}
}

// set closes the gate or opens it.
func (g *gate) set(closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = closed
	if !closed {
		g.Engine.Submit(g.held...)
		g.held = nil
		g.opened.Broadcast()
	}
}

func (g *gate) failing(f func(*aio.Request) error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fail = f
}

// waiting returns how many reads and writes are held back, and their bytes.
func (g *gate) waiting() (n, bytes [2]int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range g.held {
		way := 0
		if r.Write {
			way = 1
		}
		n[way]++
		for _, b := range r.Bufs {
			bytes[way] += len(b)
		}
	}
	return n, bytes
}

// holds waits until so many reads and writes are held back.
func (g *gate) holds(t *testing.T, reads, writes int) {
	t.Helper()
	require.Eventually(t, func() bool {
		n, _ := g.waiting()
		return n == [2]int{reads, writes}
	}, time.Minute, time.Millisecond)
}

// gated starts a tier behind a gate, gatedIn in a folder.
func (s setup) gated(t *testing.T, change ...func(*fileTier)) (*rig, *gate) {
	return s.gatedIn(t, s.folder(t), change...)
}

func (s setup) gatedIn(t *testing.T, dir string, change ...func(*fileTier)) (*rig, *gate) {
	g := new(gate)
	g.opened.L = &g.mu
	wrap := func(f *fileTier) {
		f.variant.wrap = func(e aio.Engine) aio.Engine {
			g.Engine = e
			return g
		}
	}
	r := s.start(t, dir, append(change, wrap)...)
	t.Cleanup(func() { g.set(false) }) // before the rig stops
	return r, g
}

func (r *rig) submit(ops ...tier.Op) {
	r.t.Helper()
	n, err := r.Submit(ops)
	require.NoError(r.t, err)
	require.Len(r.t, ops, n)
}

func (r *rig) reapOne() tier.Completion {
	r.t.Helper()
	dst := make([]tier.Completion, 1)
	_, err := r.Reap(context.Background(), dst)
	require.NoError(r.t, err)
	return dst[0]
}

func (r *rig) quiet() {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Empty(r.t, r.done)
}
