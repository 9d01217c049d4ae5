package datapath

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/internal/memwire"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// spy is an inner path that refuses every operation and records what the host sees.
type spy struct {
	p      *Path
	seen   chan uint64 // how many operations the host assumes to have begun at each Submit
	closed chan struct{}
}

func (s *spy) Import(context.Context, transport.Key) (transport.RemoteID, error) { return 5, nil }

func (s *spy) Submit(ops []transport.Op) (int, error) {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	consumed, err := s.p.out.Consumed()
	s.seen <- consumed
	if err == nil {
		err = errs.New(errs.InvalidParams, "", "spied on")
	}
	return 0, err
}

func (s *spy) Reap(ctx context.Context, _ []transport.Completion) (int, error) {
	select {
	case <-s.closed:
		return 0, transport.ErrPathClosed
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (s *spy) Close(context.Context) error { close(s.closed); return nil }

// TestTakenBeforeBegun checks that the host sees that an operation was taken before the transport
// gets it. So a Write that is still in the ring has certainly not begun.
func TestTakenBeforeBegun(t *testing.T) {
	r := newRig(t, 8, nil)
	var fds []int
	for _, fd := range r.p.Descriptors() {
		own, err := unix.Dup(fd)
		require.NoError(t, err)
		fds = append(fds, own)
	}
	s := &spy{p: r.p, seen: make(chan uint64, 9), closed: make(chan struct{})}
	pump, err := NewPump(PumpOptions{
		Path: s, Areas: &memwire.Areas{}, Logger: slog.New(slog.DiscardHandler), Stats: &PumpStats{},
		Fail: func(error) Failure { return Failure{Code: errs.InvalidParams, Class: errs.ClassPermanent, Text: "x"} },
	}, 8, fds)
	require.NoError(t, err)
	n, err := r.p.Submit([]transport.Op{{ID: 1, Kind: transport.Write, Remote: 5}})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.EqualValues(t, 1, <-s.seen)
	c, err := reapOne(t, r.p)
	require.NoError(t, err)
	require.Equal(t, errs.ClassPermanent, c.Class(), "a refused operation becomes a failed completion")
	// Memory that the plugin never mapped is refused, and not touched.
	r.submit(t, transport.Write, 1)
	c, err = reapOne(t, r.p)
	require.NoError(t, err)
	require.Equal(t, transport.Failed, c.Status)
	r.p.End()
	require.NoError(t, pump.Close(t.Context()))
	require.NoError(t, r.p.Settle(t.Context()))
}

// TestPumpRefusesBadPaths checks that NewPump closes invalid descriptors.
func TestPumpRefusesBadPaths(t *testing.T) {
	before := openFiles(t)
	for name, slots := range map[string]int{"descriptors that are no memory": 8, "no power of two": 7, "none": 0, "too many": MaxSlots * 2} {
		var fds []int
		for range 3 {
			fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
			require.NoError(t, err)
			fds = append(fds, fd)
		}
		_, err := NewPump(PumpOptions{}, slots, fds)
		require.Error(t, err, name)
	}
	_, err := NewPump(PumpOptions{}, 8, nil)
	require.Error(t, err)
	require.Equal(t, before, openFiles(t))
}

// giver is an inner path that delivers completions by a call, and is reaped only at its end.
type giver struct {
	spy
	f func(transport.Completion) bool
}

func (g *giver) Extras() transport.Extras {
	return transport.Extras{Deliver: func(f func(transport.Completion) bool) { g.f = f }}
}

func (g *giver) Submit(ops []transport.Op) (int, error) {
	for i := range ops {
		g.seen <- ops[i].ID
	}
	return len(ops), nil
}

// TestDeliver checks that a delivered completion is in the ring at once, unless so many operations
// are in flight that the pump writes several together, or bytes have to be copied for it.
func TestDeliver(t *testing.T) {
	r := newRig(t, 8, nil)
	var fds []int
	for _, fd := range r.p.Descriptors() {
		own, err := unix.Dup(fd)
		require.NoError(t, err)
		fds = append(fds, own)
	}
	g := &giver{spy: spy{p: r.p, seen: make(chan uint64, 9), closed: make(chan struct{})}}
	pump, err := NewPump(PumpOptions{
		Path: g, Areas: &memwire.Areas{}, Logger: slog.New(slog.DiscardHandler), Stats: &PumpStats{},
		Fail: func(error) Failure { return Failure{Code: errs.InvalidParams, Class: errs.ClassPermanent, Text: "x"} },
	}, 8, fds)
	require.NoError(t, err)
	var ids []uint64
	for i := range few + 2 {
		_, err := r.p.Submit([]transport.Op{{ID: uint64(i), Kind: transport.Read, Remote: 5}})
		require.NoError(t, err)
		ids = append(ids, <-g.seen)
	}
	ready := func() int {
		n, err := r.p.in.Ready()
		require.NoError(t, err)
		return n
	}
	ok := func(i int) transport.Completion {
		return transport.Completion{ID: ids[i], Status: transport.OK}
	}
	require.False(t, g.f(ok(0)), "several are written together")
	pump.post([]transport.Completion{ok(0), ok(1)}) // The reaper does this.
	require.True(t, g.f(ok(2)))
	require.Equal(t, 3, ready())
	pump.mu.Lock()
	pump.of(tag(ids[3])).host = 4096
	pump.mu.Unlock()
	require.False(t, g.f(ok(3)), "bytes have to be copied")
	pump.mu.Lock()
	pump.of(tag(ids[3])).host = 0
	pump.mu.Unlock()
	for i := 3; i < len(ids); i++ {
		require.True(t, g.f(ok(i)))
	}
	require.Equal(t, len(ids), ready())
	require.Zero(t, pump.used)
	dst := make([]transport.Completion, 9)
	n, err := r.p.Reap(t.Context(), dst)
	require.NoError(t, err)
	require.Equal(t, len(ids), n)
	r.p.End()
	require.NoError(t, pump.Close(t.Context()))
	require.NoError(t, r.p.Settle(t.Context()))
}
