package rdma

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// pump keeps a path full: depth operations of one size, n times.
type pump struct {
	c     *couple
	ops   []transport.Op
	dst   []transport.Completion
	under int
}

func newPump(c *couple, kind transport.OpKind, size, depth int) *pump {
	p := &pump{c: c, dst: make([]transport.Completion, depth), ops: make([]transport.Op, depth)}
	for i := range p.ops {
		at := i * size % len(c.buf)
		p.ops[i] = transport.Op{ID: uint64(i), Kind: kind, Local: c.buf[at:][:size], Remote: c.id, Offset: uint64(at)}
	}
	return p
}

// round submits n operations and reaps them all.
func (p *pump) round(t testing.TB, n int) {
	for done := 0; done < n; {
		want := min(len(p.ops)-p.under, n-done-p.under)
		if want > 0 {
			k, err := p.c.p.Submit(p.ops[:want])
			if err != nil {
				t.Fatal(err)
			}
			p.under += k
		}
		k, err := p.c.p.Reap(t.Context(), p.dst)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range p.dst[:k] {
			if c.Status != transport.OK {
				t.Fatal(c.Err)
			}
		}
		p.under -= k
		done += k
	}
}

// TestNoAllocation: an operation allocates nothing once its path has carried some. The few
// allocations that the test allows are those of the runtime and of timers.
func TestNoAllocation(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	cfg, _ := library(t, 1)
	c := newCouple(t, cfg, 1<<20)
	for _, size := range []int{64, 64 << 10} {
		p := newPump(c, transport.Write, size, 16)
		p.round(t, 2000)
		got := testing.AllocsPerRun(5, func() { p.round(t, 2000) })
		require.Less(t, got, 200.0, "allocations for 2000 operations of %d bytes", size)
	}
}

func BenchmarkPath(b *testing.B) {
	for _, kind := range []transport.OpKind{transport.Write, transport.Read} {
		for _, size := range []int{64, 4 << 10, 64 << 10, 1 << 20} {
			for _, depth := range []int{1, 32} {
				b.Run(fmt.Sprintf("kind=%d/size=%d/depth=%d", kind, size, depth), func(b *testing.B) {
					cfg, _ := library(b, 1)
					server, client := cfg(), cfg()
					if onDevices() {
						server.Devices, client.Devices = []string{"rxe1"}, []string{"rxe0"}
					}
					if d, err := time.ParseDuration(os.Getenv("BENCH_SPIN")); err == nil {
						client.Spin = plugin.Duration(d)
					}
					c := coupleOf(b, server, client, 32<<20)
					p := newPump(c, kind, size, depth)
					p.round(b, 4*depth)
					b.SetBytes(int64(size))
					b.ReportAllocs()
					b.ResetTimer()
					p.round(b, b.N)
				})
			}
		}
	}
}
