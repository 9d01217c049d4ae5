package store_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/node"
)

// processorTime is what this process has used of it.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// measured runs f and reports the processor time of one call, in microseconds.
func measured(b *testing.B, bytes int, f func(i int)) {
	b.ReportAllocs()
	b.SetBytes(int64(bytes))
	f(0)
	before, i := processorTime(b), 1
	for b.Loop() {
		f(i)
		i++
	}
	b.ReportMetric(float64((processorTime(b)-before).Nanoseconds())/1000/float64(i-1), "cpu-us/op")
}

// BenchmarkGrains is what a client spends on puts, gets of whole objects and of ranges: of its own memory,
// over shared memory and over tcp.
func BenchmarkGrains(b *testing.B) {
	const ring = 8 // objects, so that their bytes are not in the nearest caches
	prefault := func(c *node.Config) { c.Prefault = true }
	for _, way := range []string{"own", "shm", "tcp"} {
		c := newCluster(b)
		segments := []uint64{256 << 20}
		o := memberOptions{shm: way == "shm"}
		if way == "own" {
			o.segments, o.node = segments, prefault
		} else {
			c.member(memberOptions{segments: segments, node: prefault, shm: o.shm})
		}
		m, ctx := c.member(o), context.Background()
		for _, size := range []int{64 << 10, 256 << 10, 1 << 20, 4 << 20} {
			value, keys := content("k", size), make([]string, ring)
			for i := range keys {
				keys[i] = fmt.Sprint(size, "/", i)
				require.NoError(b, m.Put(ctx, keys[i], value, one))
			}
			dst := make([]byte, size)
			require.NoError(b, m.RegisterBuffer(ctx, dst, "cpu:0"))
			b.Run(fmt.Sprintf("%s/put/%d", way, size>>10), func(b *testing.B) {
				measured(b, size, func(i int) {
					require.NoError(b, m.Upsert(ctx, keys[i%ring], value, one))
				})
			})
			b.Run(fmt.Sprintf("%s/get/%d", way, size>>10), func(b *testing.B) {
				measured(b, size, func(i int) {
					_, err := m.GetInto(ctx, keys[i%ring], dst)
					require.NoError(b, err)
				})
			})
			if size < 4<<20 {
				continue
			}
			require.NoError(b, m.StartGets(ctx, keys)[0])
			for _, layer := range []int{16 << 10, 64 << 10, 128 << 10, 512 << 10, 1 << 20} {
				for _, shift := range []int{0, 5000} {
					read := make([]store.Ranges, 1)
					b.Run(fmt.Sprintf("%s/layer/%d+%d", way, layer>>10, shift), func(b *testing.B) {
						measured(b, layer, func(i int) {
							off := i*layer%(size-2*layer) + shift
							read[0] = store.Ranges{Key: keys[i%ring], Fragments: []store.Fragment{{Offset: uint64(off/layer*layer + shift), Mem: dst[:layer]}}}
							require.NoError(b, m.GetRanges(ctx, read)[0].Err)
						})
					})
				}
			}
			require.NoError(b, m.EndGets(ctx, keys))
		}
	}
}
