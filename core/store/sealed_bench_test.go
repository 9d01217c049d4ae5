package store_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/store/client"
	"github.com/mooncake-go/mooncake/core/store/internal/seal"
	"github.com/mooncake-go/mooncake/core/store/node"
)

// BenchmarkSealed is what a client spends on puts and gets of its own memory and over tcp, without a seal and with each.
func BenchmarkSealed(b *testing.B) {
	const ring = 4 // objects, so that their bytes are not in the nearest caches
	prefault := func(c *node.Config) { c.Prefault = true }
	for _, way := range []string{"own", "tcp"} {
		for _, name := range []string{"none", "mac", "aead"} {
			c := newCluster(b)
			o := memberOptions{client: func(cfg *client.Config) {
				if a := map[string]seal.Algorithm{"mac": seal.MAC, "aead": seal.AEAD}[name]; a != 0 {
					sealing(a, testKeys(b))(cfg)
				}
			}}
			segments := []uint64{256 << 20}
			if way == "own" {
				o.segments, o.node = segments, prefault
			} else {
				c.member(memberOptions{segments: segments, node: prefault})
			}
			m, ctx := c.member(o), context.Background()
			for _, size := range []int{64 << 10, 1 << 20, 16 << 20} {
				value, keys := content("k", size), make([]string, ring)
				for i := range keys {
					keys[i] = fmt.Sprint(size, "/", i)
					require.NoError(b, m.Put(ctx, keys[i], value, one))
				}
				dst := make([]byte, size)
				require.NoError(b, m.RegisterBuffer(ctx, dst, "cpu:0"))
				b.Run(fmt.Sprintf("%s/%s/put/%dK", way, name, size>>10), func(b *testing.B) {
					measured(b, size, func(i int) {
						require.NoError(b, m.Remove(ctx, keys[i%ring], true))
						require.NoError(b, m.Put(ctx, keys[i%ring], value, one))
					})
				})
				b.Run(fmt.Sprintf("%s/%s/get/%dK", way, name, size>>10), func(b *testing.B) {
					measured(b, size, func(i int) {
						_, err := m.GetInto(ctx, keys[i%ring], dst)
						require.NoError(b, err)
					})
				})
				require.NoError(b, m.UnregisterBuffer(ctx, dst))
			}
		}
	}
}
