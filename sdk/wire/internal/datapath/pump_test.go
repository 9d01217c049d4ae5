package datapath

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// spy is an inner path that only looks.
type spy struct {
	p      *Path
	seen   chan uint64 // what the host takes for begun when an operation is handed over
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

func (s *spy) Reap(context.Context, []transport.Completion) (int, error) {
	<-s.closed
	return 0, transport.ErrPathClosed
}

func (s *spy) Close(context.Context) error { close(s.closed); return nil }

// TestTakenBeforeBegun: the host sees that an operation was taken before the transport has
// it, so that a Write that is still in the ring was certainly not begun.
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
		Path: s, Areas: &Areas{}, Logger: slog.New(slog.DiscardHandler), Stats: &PumpStats{},
		Fail: func(error) Failure { return Failure{Code: errs.InvalidParams, Class: errs.ClassPermanent, Text: "x"} },
	}, 8, fds)
	require.NoError(t, err)
	n, err := r.p.Submit([]transport.Op{{ID: 1, Kind: transport.Write, Remote: 5}})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.EqualValues(t, 1, <-s.seen)
	c, err := reapOne(t, r.p)
	require.NoError(t, err)
	require.Equal(t, errs.ClassPermanent, c.Class(), "what the transport refuses is a failed completion")
	// Memory that was never handed over is refused, and not touched.
	r.submit(t, transport.Write, 1)
	c, err = reapOne(t, r.p)
	require.NoError(t, err)
	require.Equal(t, transport.Failed, c.Status)
	r.p.End()
	require.NoError(t, pump.Close(t.Context()))
	require.NoError(t, r.p.Settle(t.Context()))
}

// TestPumpRefusesBadPaths: wrong descriptors are refused, and closed.
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
