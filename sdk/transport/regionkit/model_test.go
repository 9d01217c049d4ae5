package regionkit_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/regionkit"
)

// TestTableModel adds and removes regions at random, and compares the region of each byte with a
// list of all bytes.
func TestTableModel(t *testing.T) {
	mem := make([]byte, 24)
	rapid.Check(t, func(rt *rapid.T) {
		var x table
		var owner [24]transport.RegionID
		regions := map[transport.RegionID]bool{}
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			id := transport.RegionID(rapid.IntRange(1, 6).Draw(rt, "id"))
			if rapid.Bool().Draw(rt, "remove") {
				err := x.Remove(t.Context(), drop, id, day)
				require.Equal(rt, regions[id], err == nil)
				delete(regions, id)
				for i := range owner {
					if owner[i] == id {
						owner[i] = 0
					}
				}
				continue
			}
			from := rapid.IntRange(0, len(mem)-1).Draw(rt, "from")
			to := rapid.IntRange(from+1, len(mem)).Draw(rt, "to")
			free := !regions[id]
			for i := from; i < to; i++ {
				free = free && owner[i] == 0
			}
			_, err := x.Add(add, transport.Region{ID: id, Mem: mem[from:to], FD: -1, Access: transport.AccessRemote})
			require.Equal(rt, free, err == nil, "%v", err)
			for i := from; i < to && free; i++ {
				owner[i], regions[id] = id, true
			}
		}
		base := uint64(0)
		for r := range x.All() {
			require.Greater(rt, uint64(r.Addr()), base, "in the order of addresses")
			base = uint64(r.Addr())
		}
		all := added(t, new(table), 1, mem, transport.AccessRemote)
		for i, id := range owner {
			by := new(holder)
			r, got, why := x.AcquireAt(transport.Write, uint64(all.Addr())+uint64(i), 1, by)
			if id == 0 {
				require.Equal(rt, regionkit.UnknownRegion, why)
				continue
			}
			require.Equal(rt, regionkit.Granted, why)
			require.Equal(rt, id, r.ID())
			require.Same(rt, &mem[i], &got[0])
			r.Release(by)
		}
	})
}
