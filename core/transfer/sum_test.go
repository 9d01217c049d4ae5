package transfer_test

import (
	"hash/crc32"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// TestCopiesAreSummedUp: what is copied within the process has its checksum from the copy, also
// where several cores share it and where it reaches over the border of two regions.
func TestCopiesAreSummedUp(t *testing.T) {
	w := newWorld(t, "tcp")
	a := w.node("a", []string{"tcp"}, 0)
	const half = 9 << 20
	mem := pattern(2*half, 1)
	for _, part := range [][]byte{mem[:half:half], mem[half:]} {
		_, err := a.Register(t.Context(), transfer.Memory{Bytes: part, FD: -1, Access: transport.AccessRemote})
		require.NoError(t, err)
	}
	base := memory.AddrOf(mem)
	require.True(t, a.Sums("a"))
	require.False(t, a.Sums("b"))
	for _, size := range []int{0, 1, 4096, 1 << 20, 4<<20 + 5, 8<<20 + 3} {
		for _, n := range []int{1, 2, 3} {
			for _, kind := range []transport.OpKind{transport.Write, transport.Read} {
				reqs, locals := make([]transfer.Request, n), make([][]byte, n)
				for i := range reqs {
					locals[i] = pattern(size/n, byte(7*i+1))
					at := half - size/2 + i*(size/n)
					reqs[i] = transfer.Request{Kind: kind, Local: locals[i], Peer: "a", Addr: base + uint64(at), Sum: true}
				}
				for i, r := range a.Transfer(t.Context(), reqs) {
					require.NoError(t, r.Err)
					require.True(t, r.Summed)
					require.Equal(t, crc32.Checksum(locals[i], crc32.MakeTable(crc32.Castagnoli)), r.Sum, "%d of %d: %d of %d bytes", kind, i, size, n)
					at := reqs[i].Addr - base
					require.Equal(t, locals[i], mem[at:at+uint64(len(locals[i]))])
				}
			}
		}
	}
}

func TestNoSumWithoutAllBytes(t *testing.T) {
	w := newWorld(t, "tcp")
	a, b := w.node("a", []string{"tcp"}, 1<<20), w.node("b", []string{"tcp"}, 1<<20)
	buf := make([]byte, 1000)
	reqs := []transfer.Request{
		{Kind: transport.Read, Local: buf, Peer: "a", Addr: a.base},                                                    // nobody asked
		{Kind: transport.Read, Local: buf, Peer: "a", Addr: a.base + 1<<20 - 500, Sum: true},                           // half of it is there
		{Kind: transport.Read, Local: buf, Peer: "a", Addr: a.base, Sum: true, Deadline: time.Now().Add(-time.Second)}, // too late
		{Kind: transport.Read, Local: make([]byte, 1000), Peer: "b", Addr: b.base, Sum: true},                          // its transport cannot
		{Kind: transport.Read, Local: nil, Peer: "", Addr: a.base, Sum: true},                                          // no request
		{Kind: transport.Read, Local: make([]byte, 1000), Peer: "a", Addr: a.base, Sum: true, Deadline: time.Time{}},
	}
	for i, r := range a.Transfer(t.Context(), reqs) {
		require.Equal(t, i == 5, r.Summed, i)
		require.Equal(t, i != 0 && i != 3 && i != 5, r.Err != nil, i)
		if i < 5 {
			require.Zero(t, r.Sum)
		}
	}
}
