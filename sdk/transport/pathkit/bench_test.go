package pathkit_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/pathkit"
)

// cycle submits, finishes and reaps n operations, some of which fail.
func cycle(p *testPath, ops []transport.Op, dst []transport.Completion, failure error) {
	if n, err := p.submit(ops...); n != len(ops) || err != nil {
		panic(fmt.Sprint(n, err))
	}
	p.mu.Lock()
	for o := range p.Active() {
		var err error
		if o.ID%16 == 0 {
			err = failure
		}
		p.Finish(o, err, false)
	}
	p.mu.Unlock()
	for left := len(ops); left > 0; {
		n, err := p.Take(dst)
		if err != nil || n == 0 {
			panic(fmt.Sprint(n, err))
		}
		left -= n
	}
}

func cycled(b testing.TB, depth int) func() {
	p := newTestPath(pathkit.Limits{Ops: depth, Bytes: 1 << 40, Timeout: time.Hour})
	b.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.Shut()
	})
	if _, err := p.add("k", 100); err != nil {
		b.Fatal(err)
	}
	ops := make([]transport.Op, depth)
	for i := range ops {
		ops[i] = read(uint64(i), time.Time{})
	}
	dst, failure := make([]transport.Completion, min(depth, 7)), errors.New("failed")
	return func() { cycle(p, ops, dst, failure) }
}

// TestNoAllocations: once warm, an operation allocates nothing from Submit to Reap.
func TestNoAllocations(t *testing.T) {
	for _, depth := range []int{1, 32, 500} {
		f := cycled(t, depth)
		f()
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%v allocations for %d operations", n, depth)
		}
	}
}

// BenchmarkCycle is the way of operations through the kit alone: accepted, finished, reaped.
func BenchmarkCycle(b *testing.B) {
	for _, depth := range []int{1, 32, 500} {
		b.Run(fmt.Sprint(depth), func(b *testing.B) {
			f := cycled(b, depth)
			b.ReportAllocs()
			for b.Loop() {
				f()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*depth), "ns/operation")
		})
	}
}
