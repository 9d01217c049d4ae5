// Package scaling runs a benchmark on more and more processors, and counts how often goroutines wait for locks.
package scaling

import (
	"fmt"
	"runtime"
	"testing"
)

// Run runs body in parallel on 1, 2, 4 and so on up to all processors, as benchmarks of their own. Beside the time of an operation each
// reports the operations a second on one processor, which stay the same where they scale, and how often an operation waits for a
// lock. body calls its argument until it returns false.
func Run(b *testing.B, body func(more func() bool) error) {
	most := runtime.NumCPU()
	for procs := 1; procs < 2*most; procs *= 2 {
		procs = min(procs, most)
		b.Run(fmt.Sprintf("procs=%d", procs), func(b *testing.B) { run(b, procs, body) })
	}
}

func run(b *testing.B, procs int, body func(more func() bool) error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
	defer runtime.SetMutexProfileFraction(runtime.SetMutexProfileFraction(1))
	before := waits()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		if err := body(pb.Next); err != nil {
			b.Error(err)
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/float64(procs), "ops/s/proc")
	b.ReportMetric(float64(waits()-before)/float64(b.N), "waits/op")
}

// waits is how often goroutines of this process have waited for locks, those of the runtime included.
func waits() (n int64) {
	var records []runtime.BlockProfileRecord
	for have, ok := runtime.MutexProfile(nil); !ok; {
		records = make([]runtime.BlockProfileRecord, have+64)
		have, ok = runtime.MutexProfile(records)
		records = records[:min(have, len(records))]
	}
	for i := range records {
		n += records[i].Count
	}
	return n
}
