package local_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/store"
)

// BenchmarkGetInto reads pages in batches, through a client of this process and through an
// attachment to it.
func BenchmarkGetInto(b *testing.B) {
	p := startPool(b)
	_, socket := startServer(b, p, nil)
	c, a := attach(b, socket, nil)
	ctx := context.Background()
	for _, size := range []int{4 << 10, 64 << 10, 1 << 20} {
		for _, batch := range []int{1, 16} {
			mem, err := a.Alloc(uint64(size * batch))
			require.NoError(b, err)
			keys, dst := make([]string, batch), make([][]byte, batch)
			for i := range batch {
				keys[i], dst[i] = fmt.Sprintf("%d/%d/%d", size, batch, i), mem[i*size:][:size]
				fill(dst[i], keys[i])
			}
			require.NoError(b, c.RegisterBuffer(ctx, mem, ""))
			require.NoError(b, c.BatchPut(ctx, keys, dst, one)[0])
			for name, u := range map[string]store.Pool{"direct": p.client, "local": c} {
				b.Run(fmt.Sprintf("size=%d/batch=%d/%s", size, batch, name), func(b *testing.B) {
					b.SetBytes(int64(size * batch))
					for b.Loop() {
						if r := u.GetFragments(ctx, keys, dst, nil)[batch-1]; r.Err != nil {
							b.Fatal(r.Err)
						}
					}
				})
			}
			require.NoError(b, c.UnregisterBuffer(ctx, mem))
			require.NoError(b, a.Free(mem))
		}
	}
}
