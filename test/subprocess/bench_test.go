package subprocess

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

const depth = 32

// link is a path with memory on both sides.
type link struct {
	p   transport.Path
	id  transport.RemoteID
	buf []byte
	ctx context.Context
}

// newLink connects a client to a server that is a process of its own.
func newLink(tb testing.TB, client, server transport.Transport, key transport.Key, size int) *link {
	buf, _ := memory(tb, client, 1, depth*size, transport.AccessLocal)
	l := &link{buf: buf, ctx: within(tb)}
	l.p, l.id = connect(tb, client, server, key)
	return l
}

// move moves count operations of size bytes with so many in flight.
func (l *link) move(tb testing.TB, kind transport.OpKind, size, flight, count int) {
	ops := make([]transport.Op, 1)
	dst := make([]transport.Completion, flight)
	for sent, done := 0, 0; done < count; {
		for ; sent < count && sent-done < flight; sent++ {
			at := sent % flight * size
			ops[0] = transport.Op{ID: uint64(sent), Kind: kind, Local: l.buf[at : at+size], Remote: l.id, Offset: uint64(at)}
			n, err := l.p.Submit(ops)
			if err != nil {
				tb.Fatal(err)
			}
			if n == 0 {
				break
			}
		}
		done += reap(tb, l.ctx, l.p, dst)
	}
}

// BenchmarkSubprocess moves bytes with a client in process and with one as a process of
// its own. The server is a process of its own both times.
func BenchmarkSubprocess(b *testing.B) {
	for _, size := range []int{64 << 10, 256 << 10, 1 << 20} {
		for _, home := range []string{"in-process", "subprocess"} {
			b.Run(fmt.Sprintf("%s/%dKiB", home, size>>10), func(b *testing.B) {
				server := start(b, "tcp", onLoopback)
				_, key := memory(b, server, 1, depth*size, transport.AccessRemote)
				client := transport.Transport(nil)
				if home == "subprocess" {
					client = start(b, "tcp", onLoopback)
				} else {
					client = inProcess(b)
				}
				l := newLink(b, client, server, key, size)
				l.move(b, transport.Read, size, depth, depth)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				b.ResetTimer()
				l.move(b, transport.Read, size, depth, b.N)
			})
		}
	}
}

// TestRatios prints what a process of its own costs, as ratios of one run: `make
// bench-plugins`. It takes turns, so that what else the machine does hits both alike.
func TestRatios(t *testing.T) {
	if os.Getenv("MOONCAKE_BENCH_PLUGINS") == "" {
		t.Skip("set MOONCAKE_BENCH_PLUGINS=1, or run make bench-plugins")
	}
	rounds, _ := strconv.Atoi(os.Getenv("MOONCAKE_BENCH_PLUGINS"))
	rounds = max(rounds, 5)
	r := newRig(t, 1<<20)
	near, far := r.near, r.far
	ring := newBareRing(t)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "throughput, %d in flight\tin process\tsubprocess\tratio (goal 0.95)\n", depth)
	for _, size := range []int{64 << 10, 256 << 10, 1 << 20} {
		for kind, name := range map[transport.OpKind]string{transport.Read: "read", transport.Write: "write"} {
			rate := func(l *link) float64 {
				count := (256 << 20) / size
				at := time.Now()
				l.move(t, kind, size, depth, count)
				return float64(count*size) / time.Since(at).Seconds() / 1e9
			}
			var a, b, ratio []float64
			rate(near)
			rate(far)
			for range rounds {
				x, y := rate(near), rate(far)
				a, b, ratio = append(a, x), append(b, y), append(ratio, y/x)
			}
			fmt.Fprintf(w, "%s %d KiB\t%.2f GB/s\t%.2f GB/s\t%.3f\n", name, size>>10, median(a), median(b), median(ratio))
		}
	}
	const samples = 5000
	var times [3][]time.Duration
	for range rounds {
		for i, f := range []func(){
			func() { ring.round(t, near.ctx, 1) },
			func() { near.move(t, transport.Read, 4096, 1, 1) },
			func() { far.move(t, transport.Read, 4096, 1, 1) },
		} {
			times[i] = append(times[i], latencies(samples, f)...)
		}
	}
	fmt.Fprintf(w, "\t\t\t\nlatency, 1 in flight, 4 KiB\tp50\tp90\tp99\n")
	at := func(d []time.Duration, percent int) time.Duration {
		slices.Sort(d)
		return d[len(d)*percent/100]
	}
	for i, name := range []string{"bare ring, there and back", "in process", "subprocess"} {
		fmt.Fprintf(w, "%s\t%v\t%v\t%v\n", name, at(times[i], 50), at(times[i], 90), at(times[i], 99))
	}
	fmt.Fprintf(w, "added, of the bare ring's (goal 1.2)")
	for _, percent := range []int{50, 90, 99} {
		fmt.Fprintf(w, "\t%.2f", float64(at(times[2], percent)-at(times[1], percent))/float64(at(times[0], percent)))
	}
	count := 200_000
	began := time.Now()
	for range count / depth {
		ring.round(t, near.ctx, depth)
	}
	bare := float64(count) / time.Since(began).Seconds()
	began = time.Now()
	far.move(t, transport.Read, 0, depth, count)
	fmt.Fprintf(w, "\n\t\t\t\noperations a second, %d in flight\tbare ring\tempty operations\tratio\n\t%.0f\t%.0f\t%.2f\n",
		depth, bare, float64(count)/time.Since(began).Seconds(), float64(count)/time.Since(began).Seconds()/bare)
	r.costs(t, w, rounds)
	require.NoError(t, w.Flush())
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}
