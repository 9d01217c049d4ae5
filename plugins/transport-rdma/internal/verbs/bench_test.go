//go:build cgo && linux && (amd64 || arm64 || loong64 || ppc64le || riscv64 || s390x)

package verbs_test

import (
	"fmt"
	"testing"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
)

// What a request costs on this side, and how many calls into C it takes; the fake device moves
// eight bytes for it.
func BenchmarkPostPoll(b *testing.B) {
	for _, batch := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			x, y := pair(b, newRig(b), 1<<16, verbs.QPConfig{Depth: 128})
			var wrs []verbs.WR
			for i := range batch {
				wrs = append(wrs, wr(verbs.OpWrite, x, y, uint64(i), i*64, 8))
			}
			buf := make([]verbs.Result, 128)
			calls := cgoCalls()
			b.ReportAllocs()
			for done := 0; done < b.N; {
				n, err := x.qp.Post(wrs)
				check(b, err)
				for left := n; left > 0; {
					got, err := x.cq.Wait(b.Context(), buf)
					check(b, err)
					left -= got
				}
				done += n
			}
			b.ReportMetric(float64(cgoCalls()-calls)/float64(b.N), "cgocalls/op")
		})
	}
}

// A poll of an empty queue: what a spin costs each time.
func BenchmarkPollEmpty(b *testing.B) {
	s := newSide(b, newRig(b), 0, 4096, verbs.QPConfig{})
	buf := make([]verbs.Result, 16)
	b.ReportAllocs()
	for b.Loop() {
		_, err := s.cq.Poll(buf)
		check(b, err)
	}
}
