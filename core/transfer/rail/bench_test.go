package rail

import (
	"strconv"
	"testing"
	"time"

	"github.com/mooncake-go/mooncake/core/transfer/settings"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// BenchmarkChoose is what a slice costs on its way through the rails of a path.
func BenchmarkChoose(b *testing.B) {
	cfg := settings.DefaultConfig()
	for _, n := range []int{1, 2, 8} {
		b.Run(strconv.Itoa(n*n), func(b *testing.B) {
			r := &Set{cfg: &cfg}
			for i := range n * n {
				name := func(i int) string { return "m" + strconv.Itoa(i) }
				r.list = append(r.list, &rail{Rail: transport.Rail{ID: transport.RailID(i + 1), Local: name(i / n), Remote: name(i % n), Up: true}, index: i})
			}
			s := new(Claim)
			b.ReportAllocs()
			for b.Loop() {
				r.Look(&s.Tried)
				if !r.Take(s, sliceSize, Places{}) {
					b.Fatal("no rail")
				}
				s.Started = time.Now()
				r.Done(s, transport.Completion{Status: transport.OK}, s.Started.Add(time.Microsecond))
			}
		})
	}
}
