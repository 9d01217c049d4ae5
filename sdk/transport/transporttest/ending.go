package transporttest

import (
	"bytes"
	"errors"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// slotsOf returns the numbers of n parts of memory, each for one write at a time: two writes that are in flight may not
// share a byte.
func slotsOf(n uint64) []uint64 {
	slots := make([]uint64, n)
	for i := range slots {
		slots[i] = uint64(i)
	}
	return slots
}

// returned adds the slots of writes that have completed; a write's ID modulo n is its slot. The bytes of an indeterminate
// one may still arrive, so nothing else is written there.
func returned(slots []uint64, n uint64, done []transport.Completion) []uint64 {
	for _, c := range done {
		if c.Status != transport.Quarantined {
			slots = append(slots, c.ID%n)
		}
	}
	return slots
}

// deregisterInFlight deregisters a region while peers write to it, and then reuses the memory.
// From then on no operation may touch it.
func (s *suite) deregisterInFlight(t conformance.T) {
	const size, piece = 1 << 20, 32 << 10
	const count = size / piece
	server, client := s.start(t), s.start(t)
	mem, key := s.register(t, server, 1, size, transport.AccessRemote)
	buf := s.local(t, client, 1, size)
	p, ids := dial(t, client, server, key)
	fill(buf, 3)
	stop := make(chan struct{})
	began := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- func() error {
			stop, began := stop, began
			dst := make([]transport.Completion, 64)
			slots, sent := slotsOf(count), 0
			for open := 0; ; {
				select {
				case <-stop:
					stop = nil
				default:
				}
				if stop == nil && open == 0 {
					return nil
				}
				full := len(slots) == 0
				if stop != nil && !full {
					at := int(slots[0]) * piece
					n, err := p.Submit([]transport.Op{{ID: slots[0] + uint64(sent)*count, Kind: transport.Write, Local: buf[at:][:piece], Remote: ids[0], Offset: uint64(at)}})
					if err != nil {
						return err
					}
					open, sent, slots, full = open+n, sent+n, slots[n:], n == 0
				}
				if open < 16 && stop != nil && !full || open == 0 && len(slots) > 0 {
					continue
				}
				if open == 0 {
					return errors.New("each write is Quarantined although its peer answers")
				}
				n, err := p.Reap(t.Context(), dst)
				if err != nil {
					return err
				}
				for _, c := range dst[:n] {
					if c.Status == transport.OK && sent > 20 && began != nil {
						close(began)
						began = nil
					}
				}
				slots = returned(slots, count, dst[:n])
				open -= n
			}
		}()
	}()
	select {
	case <-began:
	case err := <-done:
		t.Fatalf("writes to the region have ended before it was deregistered: %v", err)
	}
	require.NoError(t, server.Deregister(within(t), 1))
	other := bytes.Repeat([]byte{0xee}, size)
	copy(mem, other) // The race detector watches too.
	close(stop)
	require.NoError(t, <-done)
	require.True(t, bytes.Equal(other, mem), "memory was written after Deregister returned")
	fails(t, p, transport.Op{ID: 1, Kind: transport.Read, Local: buf[:8], Remote: ids[0]}, errs.ClassTransientPeer, errs.ClassPermanent)
	require.Error(t, server.Deregister(within(t), 1), "the region is no longer registered")
}

func (s *suite) deadlinePast(t conformance.T) {
	server, client := s.start(t), s.start(t)
	_, key := s.register(t, server, 1, 64, transport.AccessRemote)
	p, ids := dial(t, client, server, key)
	buf := s.local(t, client, 1, 64)
	fails(t, p, transport.Op{ID: 1, Kind: transport.Read, Local: buf, Remote: ids[0], Deadline: time.Now().Add(-time.Second)}, errs.ClassTransientPath)
	require.True(t, zero(buf), "no byte moves")
	must(t, p, transport.Op{ID: 2, Kind: transport.Read, Local: buf, Remote: ids[0], Deadline: time.Now().Add(conformance.Patience(t))})
}

// frozenPeer: operations end at their deadlines and Close returns although the peer does not
// answer.
func (s *suite) frozenPeer(t conformance.T) {
	var p transport.Path
	var ids []transport.RemoteID
	var buf []byte
	switch {
	case s.frozen != nil:
		server, client := s.start(t), s.start(t)
		_, key := s.register(t, server, 1, 4<<20, transport.AccessRemote)
		p, ids = dialAt(t, client, s.frozen(t, server.Endpoint()), key)
		buf = s.local(t, client, 1, 4<<20)
	case s.freeze != nil && s.processes != nil:
		h := s.haltable(t, 4<<20)
		p, ids = dial(t, h.client, h.server, h.key)
		buf = s.local(t, h.client, 1, 4<<20)
		h.halt()
	default:
		t.Skip("needs WithFrozen, or WithFreeze and WithProcesses")
	}
	got := do(t, p,
		soon(transport.Op{ID: 1, Kind: transport.Read, Local: buf[:2<<20], Remote: ids[0]}),
		soon(transport.Op{ID: 2, Kind: transport.Write, Local: buf[2<<20:], Remote: ids[0]}))
	for _, c := range got {
		require.NotEqual(t, transport.OK, c.Status)
		require.Equal(t, errs.ClassTransientPath, c.Class(), "%v", c.Err)
	}
	n, err := p.Submit([]transport.Op{{ID: 3, Kind: transport.Read, Local: buf, Remote: ids[0]}})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, p.Close(within(t)))
	dst := make([]transport.Completion, 1)
	n, err = p.Reap(within(t), dst)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, errs.ClassTransientPath, dst[0].Class())
}
