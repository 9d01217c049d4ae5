package transfer

import (
	"strconv"
	"testing"
	"time"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// BenchmarkChoose is what a slice costs on its way through the rails of a path.
func BenchmarkChoose(b *testing.B) {
	cfg := DefaultConfig()
	for _, n := range []int{1, 2, 8} {
		b.Run(strconv.Itoa(n*n), func(b *testing.B) {
			r := &railSet{cfg: &cfg}
			for i := range n * n {
				name := func(i int) string { return "m" + strconv.Itoa(i) }
				r.list = append(r.list, &rail{Rail: transport.Rail{ID: transport.RailID(i + 1), Local: name(i / n), Remote: name(i % n), Up: true}, index: i})
			}
			s := new(claim)
			b.ReportAllocs()
			for b.Loop() {
				r.look(&s.tried)
				if !r.take(s, sliceSize, places{}) {
					b.Fatal("no rail")
				}
				s.started = time.Now()
				r.done(s, transport.Completion{Status: transport.OK}, s.started.Add(time.Microsecond))
			}
		})
	}
}
