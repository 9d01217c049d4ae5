package store_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/model"
)

// TestHotPathCost gates what one call costs in memory: nothing of the payload is copied
// by the store or the engine, and the number of allocations does not depend on its size.
func TestHotPathCost(t *testing.T) {
	p := newPool(t, nil)
	p.member("a:1", memberOptions{segments: []uint64{segment}})
	c := p.member("c:1", memberOptions{})
	const size = 1 << 20
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
	get := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.GetInto(ctx, keys[0], dst[0]); err != nil {
				b.Fatal(err)
			}
		}
	})
	require.LessOrEqual(t, get.AllocsPerOp(), int64(60), "one page")
	require.Less(t, get.AllocedBytesPerOp(), int64(size/50), "no copy of the payload")

	batch := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, r := range c.BatchGetInto(ctx, keys, dst) {
				if r.Err != nil {
					b.Fatal(r.Err)
				}
			}
		}
	})
	require.LessOrEqual(t, batch.AllocsPerOp(), int64(60+6*len(keys)), "a batch of pages")
	require.Zero(t, c.count(t, "mooncake_client_staged_bytes_total"))
}

// BenchmarkLocal is a node that reads and writes its own memory: copy and checksum.
func BenchmarkLocal(b *testing.B) {
	const size = 1 << 20
	for _, sum := range []bool{true, false} {
		p := newPool(b, nil)
		a := p.member("a:1", memberOptions{segments: []uint64{256 << 20}, client: withChecksum(sum)})
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
				if err := a.Put(ctx, model.Key(fmt.Sprint("p", n)), value, one); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
