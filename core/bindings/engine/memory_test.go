package engine_test

import (
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bindings/engine"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestRegisterAllOrNone(t *testing.T) {
	e := started(t)
	core, err := e.Core()
	require.NoError(t, err)
	open := func() int { return len(core.Transfer.Descriptor().Buffers) }
	mem := make([]byte, 64<<10)
	a, b, c := mem[:8192], mem[8192:16384], mem[16384:32768]
	require.NoError(t, e.Register([][]byte{a, b}, "cpu:0", true))
	require.Equal(t, 2, open(), "memory that touches is no overlap")
	for name, list := range map[string][][]byte{
		"again": {c, a}, "part": {c, b[100:200]}, "over": {mem}, "twice": {c, c}, "inside": {c, c[1:2]},
	} {
		err := e.Register(list, "*", true)
		require.ErrorIs(t, err, engine.ErrOverlap, name)
		require.Equal(t, errs.InvalidParams, errs.CodeOf(err))
		require.Equal(t, 2, open(), name)
	}
	require.ErrorContains(t, e.Register([][]byte{c, {}}, "*", true), "empty")
	require.NoError(t, e.Register(nil, "*", true))

	require.ErrorIs(t, e.Unregister([]uint64{at(a, 0), at(c, 0)}), engine.ErrNotRegistered)
	require.ErrorIs(t, e.Unregister([]uint64{at(a, 0), at(a, 0)}), engine.ErrNotRegistered)
	require.ErrorIs(t, e.Unregister([]uint64{at(a, 1)}), engine.ErrNotRegistered)
	require.Equal(t, 2, open(), "none of them")
	require.NoError(t, e.Unregister([]uint64{at(b, 0), at(a, 0)}))
	require.NoError(t, e.Unregister(nil))
	require.Zero(t, open())
	require.NoError(t, e.Register([][]byte{b}, "*", true))
	require.ErrorIs(t, e.Register([][]byte{mem[:8193]}, "*", true), engine.ErrOverlap, "into the next")
	require.NoError(t, e.Unregister([]uint64{at(b, 0)}))
	require.NoError(t, e.Register([][]byte{mem}, "", false), "memory can be registered again")
	require.Zero(t, open(), "not to peers")
}

// One of many that register the same memory succeeds.
func TestRegisterOnce(t *testing.T) {
	e := started(t)
	mem := make([]byte, 4096)
	var all sync.WaitGroup
	results := make([]error, 8)
	for i := range results {
		all.Go(func() { results[i] = e.Register([][]byte{mem}, "*", true) })
	}
	all.Wait()
	won := 0
	for _, err := range results {
		if err == nil {
			won++
		}
	}
	require.Equal(t, 1, won)
}

func TestManagedBuffers(t *testing.T) {
	far := started(t)
	near := started(t)
	seen := map[uint64]bool{}
	for _, size := range []uint64{1, 8 << 10, 8<<10 + 1, 1 << 20, 5 << 20} {
		addr, err := far.Allocate(size)
		require.NoError(t, err)
		require.False(t, seen[addr])
		seen[addr] = true
		// A peer can write all of it, at once.
		sent := pattern(int(size), byte(size))
		kind, list := write(sent, addr)
		require.NoError(t, near.Transfer(far.Name(), kind, list, nil))
		require.Equal(t, sent, bytesAt(addr, int(size)))
	}
	for addr := range seen {
		require.NoError(t, far.Release(addr))
		require.Equal(t, errs.InvalidParams, errs.CodeOf(far.Release(addr)), "twice")
	}
	require.Error(t, far.Release(1))
	_, err := far.Allocate(0)
	require.Equal(t, errs.InvalidParams, errs.CodeOf(err))
	_, err = far.Allocate(1 << 62)
	require.Equal(t, errs.NoAvailableHandle, errs.CodeOf(err))

	core, err := far.Core()
	require.NoError(t, err)
	before := len(core.Transfer.Descriptor().Buffers)
	big, err := far.Allocate(257 << 20)
	require.NoError(t, err)
	require.Len(t, core.Transfer.Descriptor().Buffers, before+1, "memory of its own")
	require.NoError(t, far.Release(big))
	require.Len(t, core.Transfer.Descriptor().Buffers, before, "which is given back")
}

// Freed memory is lent again: the slabs do not grow with the number of calls.
func TestManagedBuffersAreReused(t *testing.T) {
	e := started(t)
	core, err := e.Core()
	require.NoError(t, err)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 200 {
				addr, err := e.Allocate(1 << 20)
				if err == nil {
					err = e.Release(addr)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	require.Len(t, core.Transfer.Descriptor().Buffers, 1)
}

// bytesAt is memory of an engine.
func bytesAt(addr uint64, n int) []byte {
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), n)
}
