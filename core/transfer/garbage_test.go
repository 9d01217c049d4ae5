//go:build !race

package transfer_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// TestNoGarbage: a caller who uses its memory again pays no allocation, however many requests
// there are.
func TestNoGarbage(t *testing.T) {
	const size, most = 4 << 10, 64
	w := newWorld(t, "tcp")
	from, to := w.node("a", []string{"tcp"}, 0), w.node("b", []string{"tcp"}, most*size)
	reqs := make([]transfer.Request, most)
	for i := range reqs {
		reqs[i] = transfer.Request{Kind: transport.Write, Local: make([]byte, size), Peer: "b", Addr: to.base + uint64(i*size)}
	}
	var results []transfer.Result
	for _, n := range []int{1, most} {
		allocs := testing.AllocsPerRun(200, func() {
			results = from.TransferTo(t.Context(), reqs[:n], results[:0])
			for i := range results {
				if results[i].Err != nil {
					t.Error(results[i].Err)
				}
			}
		})
		require.Len(t, results, n)
		require.LessOrEqual(t, allocs, float64(n), "%d requests; the transport of the test has one for each", n)
	}
}
