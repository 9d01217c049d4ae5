package measure

import (
	"errors"
	"slices"
	"sync"
	"time"
)

// Threads runs do in n goroutines that begin at the same time, and waits for all of them. Each
// fills a histogram of its own. It returns the time from the common beginning to the last end, all
// histograms merged, and all errors joined.
func Threads(n int, do func(thread int, began time.Time, times *Histogram) error) (took time.Duration, times *Histogram, err error) {
	var (
		wg    sync.WaitGroup
		start = make(chan struct{})
		each  = make([]*Histogram, n)
		fail  = make([]error, n)
		began time.Time
	)
	for i := range n {
		each[i] = NewHistogram()
		wg.Go(func() {
			<-start
			fail[i] = do(i, began, each[i])
		})
	}
	began = time.Now()
	close(start)
	wg.Wait()
	took, times = time.Since(began), NewHistogram()
	for _, h := range each {
		times.Merge(h)
	}
	return took, times, errors.Join(fail...)
}

// Median returns the middle of the values, which keep their order: the mean of the two in the
// middle for an even number of them, 0 for none.
func Median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return 0
	}
	v := slices.Sorted(slices.Values(values))
	return (v[(n-1)/2] + v[n/2]) / 2
}

// Micros returns a duration in microseconds.
func Micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
