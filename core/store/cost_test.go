package store_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/node"
)

// TestHotPathCost gates what one call costs in memory: nothing of the payload is copied
// by the store or the engine, and the number of allocations does not depend on its size.
func TestHotPathCost(t *testing.T) {
	p := newPool(t, nil)
	p.member("a:1", memberOptions{segments: []uint64{segment}})
	c := p.member("c:1", memberOptions{})
	const size = 256 << 10
	keys := make([]string, 16)
	values, dst := make([][]byte, len(keys)), make([][]byte, len(keys))
	for i := range keys {
		keys[i] = fmt.Sprint("page", i)
		values[i], dst[i] = content(keys[i], size), make([]byte, size)
		require.NoError(t, c.RegisterBuffer(t.Context(), dst[i], "cpu:0"))
	}
	for _, err := range c.BatchPut(t.Context(), keys, values, one) {
		require.NoError(t, err)
	}
	ctx := context.Background()
	get := measure(func() {
		if _, err := c.GetInto(ctx, keys[0], dst[0]); err != nil {
			t.Error(err)
		}
	})
	require.LessOrEqual(t, get.allocs, 15, "one page; the race detector has pools forget some of what they keep")
	require.Less(t, get.bytes, size/10, "no copy of the payload")
	batch := measure(func() {
		for _, r := range c.BatchGetInto(ctx, keys, dst) {
			if r.Err != nil {
				t.Error(r.Err)
			}
		}
	})
	t.Log("get of one page", get, "of 16", batch)
	require.LessOrEqual(t, batch.allocs, 15+2*len(keys), "a batch of pages")
	require.Less(t, batch.bytes, size/8)
	require.Zero(t, c.count(t, "mooncake_client_staged_bytes_total"))
}

// TestLayerCost gates what one layer of a batch costs, as TestHotPathCost does.
func TestLayerCost(t *testing.T) {
	p := newPool(t, nil)
	p.member("a:1", memberOptions{segments: []uint64{segment}})
	c := p.member("c:1", memberOptions{})
	const size, layer = 256 << 10, 64 << 10
	ctx := context.Background()
	keys, sizes := make([]string, 16), make([]uint64, 16)
	reads, writes := make([]store.Ranges, len(keys)), make([]store.Ranges, len(keys))
	for i := range keys {
		keys[i], sizes[i] = fmt.Sprint("page", i), size
		mem := make([]byte, layer)
		require.NoError(t, c.RegisterBuffer(ctx, mem, "cpu:0"))
		reads[i], writes[i] = read(keys[i], layer, mem), write(keys[i], layer, mem)
	}
	require.NoError(t, c.StartPuts(ctx, keys, sizes, one, nil)[0])
	put := measure(func() {
		for _, r := range c.PutRanges(ctx, writes) {
			if r.Err != nil {
				t.Error(r.Err)
			}
		}
	})
	require.NoError(t, c.RevokePuts(ctx, keys)[0])
	for i := range keys {
		require.NoError(t, c.Put(ctx, keys[i], make([]byte, size), one))
	}
	require.NoError(t, c.StartGets(ctx, keys)[0])
	get := measure(func() {
		for _, r := range c.GetRanges(ctx, reads) {
			if r.Err != nil {
				t.Error(r.Err)
			}
		}
	})
	t.Log("a layer of 16 objects: put", put, "get", get)
	require.LessOrEqual(t, get.allocs, 40+5*len(keys))
	require.LessOrEqual(t, put.allocs, 40+5*len(keys))
	require.Less(t, get.bytes, layer)
	require.Less(t, put.bytes, layer)
	require.Zero(t, c.count(t, "mooncake_client_staged_bytes_total"))
}

type cost struct{ allocs, bytes int }

// measure returns what one call allocates on average, in the whole process: the least of
// several times, as pings and the collector, which empties what is kept for later calls, only
// add to it.
func measure(f func()) cost {
	const times, runs = 5, 10
	freeGoroutines()
	f()
	least := cost{math.MaxInt, math.MaxInt}
	for range times {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range runs {
			f()
		}
		runtime.ReadMemStats(&after)
		least.allocs = min(least.allocs, int(after.Mallocs-before.Mallocs)/runs)
		least.bytes = min(least.bytes, int(after.TotalAlloc-before.TotalAlloc)/runs)
	}
	return least
}

// freeGoroutines leaves descriptors of ended goroutines with the runtime. It keeps up to 64 of
// them with each processor before it shares them: where goroutines start on one and end on
// another, each start would allocate until then.
func freeGoroutines() {
	var all sync.WaitGroup
	end := make(chan struct{})
	for range 64 * (runtime.GOMAXPROCS(0) + 2) {
		all.Go(func() { <-end })
	}
	close(end)
	all.Wait()
}

// measureEach is how often a call allocates, where something that does not count follows each: the
// median of many calls, since other goroutines allocate beside some of them.
func measureEach(f, after func()) int {
	freeGoroutines()
	f()
	after()
	each := make([]int, 120)
	for i := range each {
		var before, then runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&then)
		each[i] = int(then.Mallocs - before.Mallocs)
		after()
	}
	slices.Sort(each)
	return each[len(each)/2]
}

// BenchmarkLocal is a node that reads and writes its own memory: copy and checksum.
func BenchmarkLocal(b *testing.B) {
	const size = 1 << 20
	for _, sum := range []bool{true, false} {
		p := newPool(b, nil)
		a := p.member("a:1", memberOptions{segments: []uint64{256 << 20}, client: withChecksum(sum), node: func(c *node.Config) { c.Prefault = true }})
		value, dst := content("k", size), make([]byte, size)
		ctx := context.Background()
		require.NoError(b, a.Put(ctx, "k", value, one))
		b.Run(fmt.Sprintf("get/checksum=%v", sum), func(b *testing.B) {
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := a.GetInto(ctx, "k", dst); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("put/checksum=%v", sum), func(b *testing.B) {
			b.SetBytes(size)
			n := 0
			for b.Loop() {
				n++
				if err := a.Put(ctx, fmt.Sprint("p", n), value, one); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
