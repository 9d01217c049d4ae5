package transfer_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// The cost of the engine itself: the transport copies within the process.
func BenchmarkTransfer(b *testing.B) {
	for _, c := range []struct{ requests, size int }{{1, 4 << 10}, {1, 1 << 20}, {128, 4 << 10}, {128, 64 << 10}} {
		b.Run(strconv.Itoa(c.requests)+"x"+strconv.Itoa(c.size>>10)+"KiB", func(b *testing.B) {
			w := newWorld(b, "tcp")
			large := func(cfg *transfer.Config, _ *transfer.Deps) { cfg.SliceSize, cfg.Window = 1<<20, 64<<20 }
			from, to := w.node("a", []string{"tcp"}, 0, large), w.node("b", []string{"tcp"}, c.requests*c.size, large)
			reqs := make([]transfer.Request, c.requests)
			for i := range reqs {
				reqs[i] = transfer.Request{Kind: transport.Write, Local: make([]byte, c.size), Peer: "b", Addr: to.base + uint64(i*c.size)}
			}
			b.Run("transfer", func(b *testing.B) {
				b.SetBytes(int64(c.requests * c.size))
				b.ReportAllocs()
				for b.Loop() {
					for _, r := range from.Transfer(b.Context(), reqs) {
						require.NoError(b, r.Err)
					}
				}
			})
			b.Run("batch", func(b *testing.B) {
				b.SetBytes(int64(c.requests * c.size))
				b.ReportAllocs()
				for b.Loop() {
					batch, err := from.NewBatch(len(reqs))
					require.NoError(b, err)
					batch.Submit(reqs)
					require.NoError(b, batch.Wait(b.Context()))
					require.Equal(b, transfer.Completed, batch.BatchStatus().State)
					require.NoError(b, batch.Free())
				}
			})
		})
	}
}

// The cost of choosing among many rails.
func BenchmarkRails(b *testing.B) {
	for _, n := range []int{1, 8} {
		b.Run(strconv.Itoa(n*n), func(b *testing.B) {
			w := newWorld(b, "rdma")
			from, to, _ := pairOf(w, names("m", n), names("m", n))
			local := make([]byte, 16<<20)
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, from.move(transport.Write, to, 0, local))
			}
		})
	}
}
