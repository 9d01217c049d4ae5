package get

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/client/internal/base"
	"github.com/mooncake-go/mooncake/core/store/internal/fragment"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

// TestRangesOfACachedObject: ranges that are copied from an object in the hot cache are verified.
func TestRangesOfACachedObject(t *testing.T) {
	r := &Reader{Base: &base.Base{Config: base.DefaultConfig()}}
	for _, size := range []uint64{5000, 200_000} {
		for _, grained := range []bool{true, false} {
			object := make([]byte, size)
			for i := range object {
				object[i] = byte(i * i >> 4)
			}
			o := model.Object{Size: size, Checksum: fragment.CRC32C(crc32c.Sum(object))}
			if n := model.GrainCount(size); n > 0 && grained {
				o.Grains = make([]uint32, n)
				crc32c.SumGrains(o.Grains, object, 0, model.MinGrain)
			}
			try := func(off int) bool {
				c := r.Call(1)
				defer c.Release()
				it := &c.Items[0]
				*it = Item{object: o, fragments: []store.Fragment{{Offset: uint64(off), Mem: make([]byte, 100)}}}
				ok := c.copyFrom(it, object)
				require.Equal(t, object[off:off+100], it.fragments[0].Mem)
				return ok
			}
			require.True(t, try(4000))
			object[3990] ^= 1
			require.False(t, try(4000), "a wrong byte of the same grain")
			object[3990] ^= 1
			if size > 100_000 {
				object[150_000] ^= 1
				require.Equal(t, grained, try(4000), "a wrong byte of another grain")
			}
		}
	}
}
