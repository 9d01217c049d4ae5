package evictwire

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/internal/wiretest"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/wire"
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

func testManifest() plugin.Manifest {
	return plugin.Manifest{
		Format: 1, ID: plugin.ID{Kind: "evict", Name: "fifo"}, Version: "0.1.0", API: []uint{1},
		Summary: "for tests", Stability: plugin.Experimental,
	}
}

func fifoFactory(p *fifo) evict.Factory {
	p.proposed = map[evict.ID]uint64{}
	return evict.Define(testManifest(), func() *fifoConfig { return &fifoConfig{Shards: 4} },
		func(c *fifoConfig) (evict.Policy, error) { p.cfg = c; return p, nil })
}

// dial serves p and returns a connection to it.
func dial(t *testing.T, p *fifo) *wiretest.Connection {
	t.Helper()
	c, err := wiretest.Connect(t, Kind().Descriptor(), fifoFactory(p), wire.ServerOptions{}, nil)
	require.NoError(t, err)
	return c
}

func dialFifo(t *testing.T, p *fifo, o wire.ClientOptions) *Client {
	t.Helper()
	o.ID = plugin.ID{Kind: "evict", Name: "fifo"}
	e := NewClient(dial(t, p).Conn, o)
	require.NoError(t, e.Configure(t.Context(), 1, nil))
	return e
}
