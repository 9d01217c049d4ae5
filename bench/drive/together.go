package drive

import (
	"errors"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/latency"
)

// thread makes calls, at most so many.
type thread struct {
	calls int
	do    func(call int) error
	done  int // how many were made
}

// together has the threads work at once, each until it has made all its calls, or until the time
// is over where there is one.
func together(threads []thread, limit time.Duration) (Phase, error) {
	var (
		wg    sync.WaitGroup
		start = make(chan struct{})
		fail  = make([]error, len(threads))
		times = make([]*latency.Histogram, len(threads))
		began time.Time
	)
	for n := range threads {
		times[n] = latency.New()
		wg.Go(func() {
			<-start
			fail[n] = threads[n].run(began, limit, times[n])
		})
	}
	began = time.Now()
	close(start)
	wg.Wait()
	p := Phase{Seconds: time.Since(began).Seconds()}
	all := latency.New()
	for n, t := range threads {
		p.Calls += t.done
		all.Merge(times[n])
	}
	p.P50, p.P99 = micros(all.Quantile(0.5)), micros(all.Quantile(0.99))
	return p, errors.Join(fail...)
}

func (t *thread) run(began time.Time, limit time.Duration, times *latency.Histogram) error {
	for t.done = 0; t.done < t.calls; t.done++ {
		at := time.Now()
		if limit > 0 && t.done > 0 && at.Sub(began) >= limit {
			return nil
		}
		if err := t.do(t.done); err != nil {
			return err
		}
		times.Record(time.Since(at))
	}
	return nil
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
