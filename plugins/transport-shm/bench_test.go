package shm

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// pump moves span bytes in operations of size bytes, depth of them in flight.
func (r *pair) pump(t testing.TB, kind transport.OpKind, local []byte, size, depth int) {
	dst := make([]transport.Completion, depth)
	ops := make([]transport.Op, 0, depth)
	for at, open := 0, 0; at < len(local) || open > 0; {
		ops = ops[:0]
		for ; at < len(local) && open+len(ops) < depth; at += size {
			ops = append(ops, transport.Op{Kind: kind, Local: local[at : at+size], Remote: r.id, Offset: uint64(at)})
		}
		n, err := r.path.Submit(ops)
		if err != nil || n != len(ops) {
			t.Fatal(n, err)
		}
		open += n
		if n, err = r.path.Reap(context.Background(), dst); err != nil {
			t.Fatal(err)
		}
		for _, c := range dst[:n] {
			if c.Status != transport.OK {
				t.Fatal(c.Err)
			}
		}
		open -= n
	}
}

// BenchmarkAgainstMemcpy alternates between the transport and what it cannot beat: one
// goroutine that copies the same pages in chunks of the same size. Medians, so that a
// disturbed round does not count; on a machine that does other things too, look at the ratio
// per processor time.
func BenchmarkAgainstMemcpy(b *testing.B) {
	const span = 64 << 20
	for _, c := range []struct{ size, depth int }{{4 << 10, 64}, {64 << 10, 1}, {64 << 10, 32}, {1 << 20, 1}, {1 << 20, 8}, {4 << 20, 1}, {4 << 20, 4}} {
		for kind, name := range map[transport.OpKind]string{transport.Read: "read", transport.Write: "write"} {
			b.Run(fmt.Sprintf("%s/size=%dK/depth=%d", name, c.size>>10, c.depth), func(b *testing.B) {
				r := newPair(b, span)
				local := make([]byte, span)
				ours := func() { r.pump(b, kind, local, c.size, c.depth) }
				limit := func() {
					dst, src := local, r.mem
					if kind == transport.Write {
						dst, src = src, dst
					}
					for at := 0; at < span; at += c.size {
						copy(dst[at:at+c.size], src[at:at+c.size])
					}
				}
				ours()
				limit()
				var rate, limitRate, wall, cpu []float64
				for b.Loop() {
					t1, c1 := cost(ours)
					t2, c2 := cost(limit)
					rate, limitRate = append(rate, span/t1/1e9), append(limitRate, span/t2/1e9)
					wall, cpu = append(wall, t2/t1), append(cpu, c2/c1)
				}
				b.ReportMetric(median(rate), "GB/s")
				b.ReportMetric(median(limitRate), "memcpy-GB/s")
				b.ReportMetric(median(wall), "of-memcpy")
				b.ReportMetric(median(cpu), "of-memcpy-per-cpu")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// cost returns the seconds that f takes, on the clock and of the processors.
func cost(f func()) (wall, cpu float64) {
	used := func() float64 {
		var u syscall.Rusage
		if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
			return 0
		}
		return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
	}
	start, before := time.Now(), used()
	f()
	return time.Since(start).Seconds(), used() - before
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
