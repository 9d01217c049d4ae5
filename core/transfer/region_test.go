package transfer_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// fussy is a transport that refuses regions of some sizes, and holds others up.
type fussy struct {
	transport.Transport
	refuse map[int]bool
	hold   map[int]chan struct{} // by size, closed to let go

	mu         sync.Mutex
	registered map[transport.RegionID]bool
}

func (f *fussy) Register(ctx context.Context, r transport.Region) (transport.Key, error) {
	if c := f.hold[len(r.Mem)]; c != nil {
		<-c
	}
	if f.refuse[len(r.Mem)] {
		return nil, errs.New(errs.InvalidParams, "fussy", "not %d bytes", len(r.Mem))
	}
	f.mu.Lock()
	f.registered[r.ID] = true
	f.mu.Unlock()
	return f.Transport.Register(ctx, r)
}

func (f *fussy) Deregister(ctx context.Context, id transport.RegionID) error {
	if c := f.hold[-1]; c != nil {
		<-c
	}
	f.mu.Lock()
	delete(f.registered, id)
	f.mu.Unlock()
	return f.Transport.Deregister(ctx, id)
}

func withFussy(to **fussy) option {
	return func(_ *transfer.Config, d *transfer.Deps) {
		*to = &fussy{Transport: d.Carriers[0].Transport, refuse: map[int]bool{}, hold: map[int]chan struct{}{}, registered: map[transport.RegionID]bool{}}
		d.Carriers[0].Transport = *to
	}
}

func pieces(mem []byte, borders ...int) []transfer.Memory {
	var out []transfer.Memory
	for i := 1; i < len(borders); i++ {
		out = append(out, transfer.Memory{Bytes: mem[borders[i-1]:borders[i]], FD: -1, Access: transport.AccessRemote})
	}
	return out
}

func TestRegisterBatch(t *testing.T) {
	w := newWorld(t, "tcp")
	var f *fussy
	a := w.node("a", []string{"tcp"}, 0, withFussy(&f))
	mem := make([]byte, 10_000)
	ids, err := a.RegisterBatch(t.Context(), pieces(mem, 0, 10, 4000, 4001, 10_000))
	require.NoError(t, err)
	require.Len(t, ids, 4)
	require.Equal(t, 1, w.tells["a"], "one publication")
	require.Len(t, w.entries["a"].Buffers, 4)

	other := make([]byte, 10_000)
	f.refuse[7] = true
	for name, list := range map[string][]transfer.Memory{
		"refused by the transport": pieces(other, 0, 100, 107, 200),
		"empty":                    pieces(other, 0, 100, 100),
		"overlap in the list":      append(pieces(other, 0, 100), pieces(other, 99, 200)...),
		"overlap with registered":  append(pieces(other, 0, 100), pieces(mem, 4000, 4001)...),
	} {
		got, err := a.RegisterBatch(t.Context(), list)
		require.True(t, errs.Is(err, errs.InvalidParams), "%s: %v", name, err)
		require.Empty(t, got)
		require.Len(t, f.registered, 4, "%s: nothing is left", name)
		require.Equal(t, 1, w.tells["a"], "%s: nothing is published", name)
	}
	w.broken = errors.New("the directory is down")
	_, err = a.RegisterBatch(t.Context(), pieces(other, 0, 100))
	require.ErrorIs(t, err, w.broken)
	require.Len(t, f.registered, 4)
	w.broken = nil
	local, err := a.RegisterBatch(t.Context(), []transfer.Memory{{Bytes: other, FD: -1}})
	require.NoError(t, err, "everything of other was given back")
	tells := w.tells["a"]
	require.Equal(t, 2, tells, "what is closed to peers is no news to them; the failed attempt counts")

	err = a.DeregisterBatch(t.Context(), append(ids, 999))
	require.ErrorContains(t, err, "no region has the id 999")
	require.Equal(t, tells+1, w.tells["a"], "one publication")
	require.Empty(t, w.entries["a"].Buffers)
	require.Len(t, f.registered, 1, "the good ones were ended all the same")
	require.NoError(t, a.DeregisterBatch(t.Context(), local))
}

// TestRegionsOnTheirWayInAndOut keep others off as well.
func TestRegionsOnTheirWayInAndOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "tcp")
		var f *fussy
		a := w.node("a", []string{"tcp"}, 0, withFussy(&f))
		mem := make([]byte, 1000)
		in, out := make(chan struct{}), make(chan struct{})
		f.hold[500], f.hold[-1] = in, out
		overlaps := func() {
			t.Helper()
			_, err := a.Register(t.Context(), transfer.Memory{Bytes: mem[400:600], FD: -1})
			require.True(t, errs.Is(err, errs.InvalidParams), "%v", err)
		}
		var id transport.RegionID
		done := make(chan error, 1)
		go func() {
			var err error
			id, err = a.Register(t.Context(), transfer.Memory{Bytes: mem[:500], FD: -1})
			done <- err
		}()
		synctest.Wait()
		overlaps()
		close(in)
		require.NoError(t, <-done)
		go func() { done <- a.Deregister(t.Context(), id) }()
		synctest.Wait()
		overlaps()
		require.True(t, errs.Is(a.Deregister(t.Context(), id), errs.InvalidParams), "only once")
		close(out)
		require.NoError(t, <-done)
		_, err := a.Register(t.Context(), transfer.Memory{Bytes: mem[400:600], FD: -1})
		require.NoError(t, err)
		a.stop(t)
	})
}

// shut is a guard that refuses every write.
type shut struct{}

func (shut) BeginWrite(uint64, uint64, transport.Writer) transport.WriteID { return 0 }
func (shut) EndWrite(transport.WriteID)                                    {}

// TestGuard: it reaches the transports that ask it, and no other; copies within the process ask it, too.
func TestGuard(t *testing.T) {
	w := newWorld(t, "asks", "ignores")
	a := w.node("a", []string{"asks", "ignores"}, 0, func(_ *transfer.Config, d *transfer.Deps) { d.Carriers[0].Guards = true })
	a.mem = make([]byte, 1000)
	a.base = memory.AddrOf(a.mem)
	_, err := a.Register(t.Context(), transfer.Memory{Bytes: a.mem, FD: -1, Access: transport.AccessRemote, Guard: shut{}})
	require.NoError(t, err)
	require.NoError(t, a.Publish(t.Context()))
	require.Equal(t, []string{"asks"}, a.Guarding())
	value := pattern(100, 1)
	for _, from := range []*node{w.node("b", []string{"asks"}, 0), a} {
		err := from.move(transport.Write, a, 10, value)
		require.Equal(t, errs.InvalidWrite, errs.CodeOf(err), "%v", err)
		require.Equal(t, errs.ClassPermanent, errs.ClassOf(err))
		require.Equal(t, make([]byte, 1000), a.mem)
		require.NoError(t, from.move(transport.Read, a, 10, make([]byte, 100)))
	}
	require.NoError(t, w.node("c", []string{"ignores"}, 0).move(transport.Write, a, 10, value))
	require.Equal(t, value, a.mem[10:110])
}
