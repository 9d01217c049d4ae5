package transfer_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// strict is a transport that moves only the memory that it took.
type strict struct {
	transport.Transport
	full  bool // it takes no more
	taken [][]byte
}

type strictPath struct {
	transport.Path
	t *strict
}

func (s *strict) Register(ctx context.Context, r transport.Region) (transport.Key, error) {
	if s.full {
		return nil, errs.WithClass(errs.ClassLocalDevice, "test", errors.New("RLIMIT_MEMLOCK"))
	}
	s.taken = append(s.taken, r.Mem)
	return s.Transport.Register(ctx, r)
}

func (s *strict) Dial(ctx context.Context, ep transport.Endpoint) (transport.Path, error) {
	p, err := s.Transport.Dial(ctx, ep)
	return strictPath{p, s}, err
}

func (p strictPath) Submit(ops []transport.Op) (int, error) {
	for i, op := range ops {
		at, known := memory.AddrOf(op.Local), false
		for _, mem := range p.t.taken {
			known = known || at >= memory.AddrOf(mem) && at+uint64(len(op.Local)) <= memory.AddrOf(mem)+uint64(len(mem))
		}
		if !known {
			err := errs.New(errs.InvalidParams, "test", "the local memory is not registered")
			if n, e := p.Path.Submit(ops[:i]); n < i || e != nil {
				return n, e
			}
			return i, err
		}
	}
	return p.Path.Submit(ops)
}

// TestMemoryThatOneTransportRefused goes over another one, or through a staging buffer.
func TestMemoryThatOneTransportRefused(t *testing.T) {
	for name, staged := range map[string]bool{"another": false, "staging": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "rdma", "tcp")
			var s *strict
			pool, err := memory.NewPool(make([]byte, 32<<10))
			require.NoError(t, err)
			a := w.node("a", []string{"rdma", "tcp"}, 0, func(_ *transfer.Config, d *transfer.Deps) {
				s = &strict{Transport: d.Carriers[0].Transport}
				d.Carriers[0].Transport, d.Carriers[0].LocalAny = s, false
				if staged {
					d.Staging = pool
				}
			})
			b := w.node("b", []string{"rdma", "tcp"}, 1<<20)
			_, err = a.Register(t.Context(), transfer.Memory{Bytes: pool.Memory(), FD: -1})
			require.NoError(t, err)
			known, refused := pattern(100_000, 1), pattern(100_000, 2)
			_, err = a.Register(t.Context(), transfer.Memory{Bytes: known, FD: -1})
			require.NoError(t, err)
			s.full = true
			_, err = a.Register(t.Context(), transfer.Memory{Bytes: refused, FD: -1})
			require.NoError(t, err, "one transport that takes it is enough")
			for i, local := range [][]byte{known, refused, pattern(100_000, 3)} {
				require.NoError(t, a.move(transport.Write, b, 0, local), i)
				require.Equal(t, local, b.mem[:len(local)])
			}
			used := map[string]uint64{}
			for _, l := range a.Paths() {
				used[l.Transport] = l.Rails[0].Bytes
			}
			want := map[string]uint64{"rdma": 100_000, "tcp": 200_000}
			if staged {
				want = map[string]uint64{"rdma": 300_000, "tcp": 0}
			}
			require.Equal(t, want, used)
		})
	}
}

// TestQuarantinedWritesLeaveStaging: peers that fail must not use the buffers up.
func TestQuarantinedWritesLeaveStaging(t *testing.T) {
	w := newWorld(t, "rdma")
	pool, err := memory.NewPool(make([]byte, 32<<10))
	require.NoError(t, err)
	a := w.node("a", []string{"rdma"}, 0, func(_ *transfer.Config, d *transfer.Deps) { d.Carriers[0].LocalAny, d.Staging = false, pool })
	b := w.node("b", []string{"rdma"}, 1<<20)
	_, err = a.Register(t.Context(), transfer.Memory{Bytes: pool.Memory(), FD: -1})
	require.NoError(t, err)
	cut := memtransport.Fault{Err: errs.WithClass(errs.ClassTransientPath, "test", errors.New("cut")), Quarantine: true}
	a.wires["rdma"].SetHook(func(memtransport.Event) memtransport.Fault { return cut })
	for range 20 {
		require.ErrorIs(t, a.move(transport.Write, b, 0, pattern(4096, 1)), transfer.ErrQuarantined)
	}
	require.Zero(t, pool.Used())
	a.wires["rdma"].SetHook(nil)
	require.NoError(t, a.move(transport.Write, b, 0, pattern(100_000, 1)))
}

// TestMemoryThatNoTransportTook is refused, with the reason, and the peer is not blamed.
func TestMemoryThatNoTransportTook(t *testing.T) {
	w := newWorld(t, "rdma")
	a := w.node("a", []string{"rdma"}, 0, func(_ *transfer.Config, d *transfer.Deps) {
		d.Carriers[0].Transport, d.Carriers[0].LocalAny = &strict{Transport: d.Carriers[0].Transport}, false
	})
	b := w.node("b", []string{"rdma"}, 1<<20)
	for range 2 {
		require.ErrorContains(t, a.move(transport.Write, b, 0, pattern(10, 1)), "the local memory is not registered")
	}
	require.Equal(t, 1, w.asked("b"))
}
