package transfer_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// TestNothingIsSubmittedAfterTheEnd: a request that runs over the end of the peer's memory
// is decided by its second half, when the first is about to be submitted.
func TestNothingIsSubmittedAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "tcp")
		a, b := w.node("a", []string{"tcp"}, 0), w.node("b", []string{"tcp"}, 1<<20)
		require.NoError(t, a.move(transport.Write, b, 0, pattern(10, 1)))
		var ended, late atomic.Int64
		a.wires["tcp"].SetHook(func(e memtransport.Event) memtransport.Fault {
			if e.Len == 1000 && ended.Load() > 0 {
				late.Add(1)
			}
			return memtransport.Fault{}
		})
		s, err := a.SubmitScatter([]transfer.Range{{
			Kind: transport.Read, Peer: "b", Base: b.base + 1<<20 - 1000, Size: 10_000, Local: make([]byte, 10_000),
			LocalOffsets: []uint64{0, 5000}, RemoteOffsets: []uint64{0, 0}, Lengths: []uint64{2000, 500},
			Done: func(int, transfer.Status) { ended.Add(1) },
		}})
		require.NoError(t, err)
		synctest.Wait()
		bad, err := s.Status(0, 0)
		require.NoError(t, err)
		require.Equal(t, transfer.Failed, bad.State)
		good, err := s.Status(0, 1)
		require.NoError(t, err)
		require.Equal(t, transfer.Completed, good.State)
		require.Zero(t, late.Load(), "its memory is touched after the terminal state")
		require.EqualValues(t, 2, ended.Load())
		require.Zero(t, a.Devices()[0].Inflight)
		s.Close()
		a.stop(t)
		b.stop(t)
	})
}

// TestOnlyTheHungPathIsClosed: another path of the group may carry what is of others.
func TestOnlyTheHungPathIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "rdma", "tcp")
		a, b := w.node("a", []string{"rdma", "tcp"}, 0), w.node("b", []string{"rdma", "tcp"}, 1<<20)
		a.wires["rdma"].SetHook(func(e memtransport.Event) memtransport.Fault {
			if e.N == 1 {
				return memtransport.Fault{Hold: true, Late: true}
			}
			return memtransport.Fault{Err: errs.WithClass(errs.ClassLocalDevice, "test", errors.New("no device"))}
		})
		got := a.Transfer(t.Context(), []transfer.Request{write(b, 0, pattern(10, 1)), write(b, 100, pattern(10, 1))})
		require.NoError(t, got[0].Err)
		require.NoError(t, got[1].Err)
		require.Equal(t, 1, a.wires["tcp"].Dials())
		a.stop(t)
		b.stop(t)
	})
}

// closing is a transport whose path ends while Submit is called: the reaper is through
// before Submit refuses.
type closing struct {
	transport.Transport
	armed atomic.Bool
}

type closingPath struct {
	transport.Path
	t     *closing
	ended chan struct{}
}

func (c *closing) Dial(ctx context.Context, ep transport.Endpoint) (transport.Path, error) {
	p, err := c.Transport.Dial(ctx, ep)
	return &closingPath{p, c, make(chan struct{})}, err
}

func (p *closingPath) Reap(ctx context.Context, dst []transport.Completion) (int, error) {
	n, err := p.Path.Reap(ctx, dst)
	if errors.Is(err, transport.ErrPathClosed) {
		close(p.ended)
	}
	return n, err
}

func (p *closingPath) Submit(ops []transport.Op) (int, error) {
	if p.t.armed.CompareAndSwap(true, false) {
		if err := p.Path.Close(context.Background()); err != nil {
			return 0, err
		}
		<-p.ended
		for range 1000 {
			runtime.Gosched() // The reaper goes on.
		}
	}
	return p.Path.Submit(ops)
}

// TestPathThatEndsDuringSubmit: what it refuses is tried again, and nothing else happens to
// it.
func TestPathThatEndsDuringSubmit(t *testing.T) {
	w := newWorld(t, "tcp")
	var c *closing
	a := w.node("a", []string{"tcp"}, 0, func(_ *transfer.Config, d *transfer.Deps) {
		c = &closing{Transport: d.Carriers[0].Transport}
		d.Carriers[0].Transport = c
	})
	b := w.node("b", []string{"tcp"}, 1<<20)
	for i := range 20 {
		c.armed.Store(true)
		want := pattern(100_000, byte(i))
		require.NoError(t, a.move(transport.Write, b, 0, want))
		require.Equal(t, want, b.mem[:len(want)])
		require.Zero(t, a.Devices()[0].Inflight)
	}
	require.Zero(t, a.Stats().Quarantined)
}
