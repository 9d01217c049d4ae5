package shm

import (
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// TestSums: an operation that asks for it is checksummed, however many workers share it.
func TestSums(t *testing.T) {
	const size = 5 << 20
	r := newPair(t, size, func(c *Config) { c.Workers, c.SliceBytes = 3, 64<<10 })
	require.True(t, r.path.Extras().Checksums)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 63, 4096, 100_000, 1<<20 + 1, size - 7} {
		for _, kind := range []transport.OpKind{transport.Write, transport.Read} {
			local := make([]byte, n)
			for i := range local {
				local[i] = byte(rng.Uint32())
			}
			o := transport.Op{ID: 3, Kind: kind, Local: local, Remote: r.id, Offset: 7, Sum: true}
			c := one(t, r.path, o)
			require.Equal(t, transport.OK, c.Status)
			require.True(t, c.Summed)
			require.Equal(t, crc32.Checksum(local, crc32.MakeTable(crc32.Castagnoli)), c.Sum, "%d of %d bytes", kind, n)
			require.True(t, string(local) == string(r.mem[7:7+n]))

			o.Sum = false
			c = one(t, r.path, o)
			require.False(t, c.Summed)
			require.Zero(t, c.Sum)

			for _, grain := range []int{16 << 10, 1 << 20} { // Above the size of a slice, too.
				lead := n * 7919 % grain
				var want []uint32
				for at := 0; at < n; {
					to := min(at+grain-(lead+at)%grain, n)
					want = append(want, crc32.Checksum(local[at:to], crc32.MakeTable(crc32.Castagnoli)))
					at = to
				}
				o.Grains = transport.Grains{Sums: make([]uint32, len(want)), Lead: lead, Size: grain}
				require.True(t, one(t, r.path, o).Grained)
				require.Equal(t, want, o.Grains.Sums)
			}
		}
	}
	require.NoError(t, r.server.Deregister(t.Context(), 1))
	c := one(t, r.path, transport.Op{ID: 4, Kind: transport.Read, Local: make([]byte, 10), Remote: r.id, Sum: true})
	require.Equal(t, transport.Failed, c.Status)
	require.False(t, c.Summed)
}
