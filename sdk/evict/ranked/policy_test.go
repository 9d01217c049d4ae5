package ranked_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/evict/evicttest"
	"github.com/mooncake-go/mooncake/sdk/evict/ranked"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fifo is the simplest order. It counts its calls.
type fifo struct {
	set     *ranked.Set[uint8]
	queue   ranked.List
	calls   map[string]int
	touched []evict.ID
}

func (f *fifo) Insert(at uint32, _ *evict.Event) { f.calls["insert"]++; f.set.PushBack(f.queue, at) }
func (f *fifo) Access(at uint32, _ *evict.Event) { f.touched = append(f.touched, f.set.At(at).ID) }
func (f *fifo) Next() uint32                     { return f.set.Front(f.queue) }
func (f *fifo) Leave(uint32)                     { f.calls["leave"]++ }
func (f *fifo) Spare(at uint32)                  { f.calls["spare"]++; f.set.PushBack(f.queue, at) }
func (f *fifo) Evicted(uint32)                   { f.calls["evicted"]++ }

func newFIFO() (*fifo, evict.Policy) {
	f := &fifo{calls: map[string]int{}}
	return f, ranked.New(func(s *ranked.Set[uint8]) ranked.Order {
		f.set, f.queue = s, s.NewList()
		return f
	})
}

func TestConformance(t *testing.T) {
	m := plugin.Manifest{
		Format: 1, ID: plugin.ID{Kind: plugin.KindEvict, Name: "fifo"}, Version: "0.0.1", API: []uint{1},
		Summary: "First in, first out", Stability: plugin.Experimental,
	}
	evicttest.Run(t, evict.Define(m, func() *plugin.NoConfig { return new(plugin.NoConfig) },
		func(*plugin.NoConfig) (evict.Policy, error) {
			_, p := newFIFO()
			return p, nil
		}))
}

// TestWhatAnOrderIsTold: once for each change of state, and of reads also while proposed.
func TestWhatAnOrderIsTold(t *testing.T) {
	f, p := newFIFO()
	ctx := t.Context()
	event := func(op evict.Op, id evict.ID) {
		require.NoError(t, p.Record(ctx, []evict.Event{{Op: op, ID: id, Size: 1}}))
	}
	for id := evict.ID(1); id <= 4; id++ {
		event(evict.Insert, id)
	}
	got, err := p.Propose(ctx, make([]evict.Candidate, 0, 8), 3)
	require.NoError(t, err)
	require.Len(t, got, 3)
	event(evict.Access, 1)
	event(evict.Insert, 4)
	event(evict.Access, 9)
	event(evict.Remove, 3) // while proposed: it has left already
	event(evict.Remove, 4)
	require.NoError(t, p.Resolve(ctx, []evict.Verdict{{ID: 1}, {ID: 2, Evicted: true}, {ID: 1, Evicted: true}, {ID: 3}, {}}))
	require.Equal(t, map[string]int{"insert": 4, "leave": 4, "spare": 1, "evicted": 1}, f.calls)
	require.Equal(t, []evict.ID{1, 4}, f.touched)
}
