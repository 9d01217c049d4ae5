package engine

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/builtin"
	"github.com/mooncake-go/mooncake/core/bindings/settings"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/core/transfer/request"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// What is lent stays below what the machine has, over slabs and dedicated memory.
func TestManagedMemoryIsBounded(t *testing.T) {
	e := New(func() settings.Source { return settings.Source{Builtins: builtin.Plugins(), Log: io.Discard} })
	t.Cleanup(e.Shut)
	require.NoError(t, e.Start(Options{Name: "127.0.0.1", Metadata: "P2PHANDSHAKE", Protocol: "tcp"}))
	m := &e.session.managed
	m.limit = firstSlab + 16<<20
	first, err := e.Allocate(firstSlab)
	require.NoError(t, err)
	_, err = e.Allocate(32 << 20)
	require.Equal(t, errs.NoAvailableHandle, errs.CodeOf(err))
	_, err = e.Allocate(largestClass + 1)
	require.Equal(t, errs.NoAvailableHandle, errs.CodeOf(err))
	last, err := e.Allocate(16 << 20)
	require.NoError(t, err, "a slab as small as is left")
	require.Equal(t, m.limit, m.total)
	require.NoError(t, e.Release(first))
	require.NoError(t, e.Release(last))
	again, err := e.Allocate(firstSlab)
	require.NoError(t, err)
	require.Equal(t, first, again)
}

// Nothing is kept of a batch that was freed.
func TestFreedBatchesAreForgotten(t *testing.T) {
	e := New(func() settings.Source { return settings.Source{Builtins: builtin.Plugins(), Log: io.Discard} })
	t.Cleanup(e.Shut)
	require.NoError(t, e.Start(Options{Name: "127.0.0.1", Metadata: "P2PHANDSHAKE", Protocol: "tcp"}))
	id, err := e.Submit(e.Name(), transport.Write, []Range{{Local: []byte{1}, Addr: 1}})
	require.NoError(t, err)
	require.Error(t, e.Wait([]uint64{id}), "it is no memory of the engine")
	e.session.batches.Range(func(id, _ any) bool {
		t.Errorf("batch %v was not forgotten", id)
		return true
	})
}

// Where a store goes on with what is below, nothing of the engine's own is left there.
func TestBatchesEndWithTheirEngine(t *testing.T) {
	e := New(func() settings.Source { return settings.Source{Builtins: builtin.Plugins(), Log: io.Discard} })
	t.Cleanup(e.Shut)
	require.NoError(t, e.Start(Options{Name: "127.0.0.1", Metadata: "P2PHANDSHAKE", Protocol: "tcp"}))
	core, err := e.Core()
	require.NoError(t, err)
	require.True(t, core.Hold())
	defer func() { require.NoError(t, core.Close(context.Background())) }()
	id, err := e.Submit(e.Name(), transport.Write, []Range{{Local: []byte{1}, Addr: 1}})
	require.NoError(t, err)
	e.Shut()
	_, err = core.Transfer.Batch(transfer.BatchID(id))
	require.ErrorIs(t, err, transfer.ErrStaleBatch)
}

// store.transfer_timeout, at least 5 s, and 1 ns for each byte; without one, what a slow link takes.
func TestBoundOfATransfer(t *testing.T) {
	s := &session{}
	require.Equal(t, request.Patience(100<<20), s.bound(100<<20))
	s.cfg.TransferTimeout = time.Second
	require.Equal(t, leastTime, s.bound(0))
	s.cfg.TransferTimeout = 2 * leastTime
	require.Equal(t, 2*leastTime+1000, s.bound(1000))
	require.Greater(t, s.bound(1<<64-1), s.bound(0), "no size makes it overflow")
}
