package shm

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// TestTouched compares with a set of units.
func TestTouched(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.IntRange(1, 200*touchUnit).Draw(rt, "size")
		got, want := newTouched(size), map[int]bool{}
		for range rapid.IntRange(1, 40).Draw(rt, "chunks") {
			from := rapid.IntRange(0, size-1).Draw(rt, "from")
			to := rapid.IntRange(from+1, size).Draw(rt, "to")
			fresh := false
			for u := from / touchUnit; to-from >= touchUnit && u*touchUnit < to; u++ {
				fresh = fresh || !want[u]
				want[u] = true
			}
			require.Equal(rt, fresh, got.first(from, to), "[%d, %d)", from, to)
		}
	})
}

// TestFirstTouch: large chunks bring their pages in before they are copied, also at the end of
// a region that begins and ends within a page.
func TestFirstTouch(t *testing.T) {
	const size = 1<<20 + 5000
	server, client := fresh(t), fresh(t)
	mem, fd := sealed(t, size)
	key, err := server.Register(t.Context(), transport.Region{ID: 1, Mem: mem[100:], FD: fd, FDOffset: 100, Access: transport.AccessRemote})
	require.NoError(t, err)
	p, id := dialTo(t, client, server.Endpoint(), key)
	local := make([]byte, size-100)
	for i := range local {
		local[i] = byte(i * 7)
	}
	require.Equal(t, transport.OK, one(t, p, transport.Op{Kind: transport.Write, Local: local, Remote: id}).Status)
	require.Equal(t, local, mem[100:])
	r, _ := p.Remote(id)
	require.Equal(t, 100, r.lead)
	require.False(t, r.touched.first(0, size), "all of it was touched")
}
