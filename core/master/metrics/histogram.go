package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The upper bounds of the buckets, ascending: sizes in bytes, the others in nanoseconds.
var (
	sizeBounds     = []uint64{4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20}
	durationBounds = nanoseconds(
		50*time.Microsecond, 100*time.Microsecond, 250*time.Microsecond, 500*time.Microsecond,
		time.Millisecond, 2500*time.Microsecond, 5*time.Millisecond, 10*time.Millisecond, 25*time.Millisecond,
		50*time.Millisecond, 100*time.Millisecond, 250*time.Millisecond, 500*time.Millisecond,
		time.Second, 2500*time.Millisecond, 5*time.Second, 10*time.Second, 30*time.Second, 60*time.Second)
	ageBounds = nanoseconds(
		time.Second, 5*time.Second, 15*time.Second, 30*time.Second, time.Minute, 2*time.Minute, 5*time.Minute,
		15*time.Minute, 30*time.Minute, time.Hour, 3*time.Hour, 12*time.Hour, 24*time.Hour)
)

func nanoseconds(list ...time.Duration) []uint64 {
	out := make([]uint64, len(list))
	for i, d := range list {
		out[i] = uint64(d)
	}
	return out
}

// maxBounds is the longest of the lists above.
const maxBounds = 19

// histogram counts numbers in buckets.
type histogram struct {
	buckets [maxBounds + 1]Counter
	sum     Counter
}

func (h *histogram) observe(n uint64, bounds []uint64) {
	i := 0
	for i < len(bounds) && n > bounds[i] {
		i++
	}
	h.buckets[i].Add(1)
	h.sum.AddBytes(n)
}

// metric shows the histogram; unit is how much of the counted number is 1 of the metric.
func (h *histogram) metric(desc *prometheus.Desc, bounds []uint64, unit float64, labels ...string) prometheus.Metric {
	buckets, below := make(map[float64]uint64, len(bounds)), uint64(0)
	for i, bound := range bounds {
		below += h.buckets[i].Load()
		buckets[float64(bound)/unit] = below
	}
	below += h.buckets[len(bounds)].Load()
	return prometheus.MustNewConstHistogram(desc, below, float64(h.sum.Load())/unit, buckets, labels...)
}

// Sizes is a histogram of sizes of objects.
type Sizes struct{ h histogram }

// Observe counts one object of size bytes.
func (s *Sizes) Observe(size uint64) { s.h.observe(size, sizeBounds) }

// Durations is a histogram of times from 50 us to a minute.
type Durations struct{ h histogram }

// Observe counts one time; one below 0 counts as 0.
func (d *Durations) Observe(took time.Duration) { d.h.observe(uint64(max(0, took)), durationBounds) }

// Ages is a histogram of times from a second to a day.
type Ages struct{ h histogram }

// Observe counts one age; one below 0 counts as 0.
func (a *Ages) Observe(age time.Duration) { a.h.observe(uint64(max(0, age)), ageBounds) }
