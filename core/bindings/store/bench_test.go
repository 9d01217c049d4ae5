package store_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bindings/store"
	"github.com/mooncake-go/mooncake/core/memory"
)

// batch is 128 objects in registered memory, and a store whose pool lies behind TCP.
type batch struct {
	s       *store.Store
	keys    []string
	mem     store.Fragments
	results []store.Code
}

func newBatch(b *testing.B, size uint64) *batch {
	const n = 128
	master := startMaster(b, nil)
	open(b, master, "global_segment_size=512MB")
	t := &batch{s: open(b, master, "global_segment_size=0"), results: make([]store.Code, n)}
	block, err := memory.Allocate(n*size, memory.Options{Prefault: true})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, block.Close()) })
	base := memory.AddrOf(block.Bytes())
	require.Zero(b, t.s.Register(base, n*size))
	b.Cleanup(func() { require.Zero(b, t.s.Unregister(base)) })
	for i := range uint64(n) {
		t.keys = append(t.keys, fmt.Sprint("key-", i))
		t.mem.Ptrs, t.mem.Sizes = append(t.mem.Ptrs, base+i*size), append(t.mem.Sizes, size)
	}
	b.SetBytes(int64(n * size))
	b.ReportAllocs()
	return t
}

func (t *batch) all(b *testing.B, want store.Code) {
	for _, code := range t.results {
		if code != want {
			b.Fatalf("%d, want %d: %s", code, want, t.s.LastError())
		}
	}
}

func benchmarkPut(b *testing.B, size uint64) {
	t := newBatch(b, size)
	for b.Loop() {
		t.s.Put(t.keys, t.mem, &once, 0, t.results)
		t.all(b, 0)
		b.StopTimer()
		t.s.Remove(t.keys, true, t.results)
		t.all(b, 0)
		b.StartTimer()
	}
}

func benchmarkGet(b *testing.B, size uint64) {
	t := newBatch(b, size)
	t.s.Put(t.keys, t.mem, &once, 0, t.results)
	t.all(b, 0)
	for b.Loop() {
		t.s.GetInto(t.keys, t.mem, t.results)
		t.all(b, store.Code(size))
	}
}

func BenchmarkBatchPutFrom128x1MiB(b *testing.B) { benchmarkPut(b, 1<<20) }
func BenchmarkBatchGetInto128x1MiB(b *testing.B) { benchmarkGet(b, 1<<20) }
func BenchmarkBatchPutFrom128x4KiB(b *testing.B) { benchmarkPut(b, 4<<10) }
func BenchmarkBatchGetInto128x4KiB(b *testing.B) { benchmarkGet(b, 4<<10) }
