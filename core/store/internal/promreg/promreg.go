// Package promreg registers Prometheus collectors and keeps the first error.
package promreg

import (
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Buckets are the upper bounds of latencies in microseconds: from 50 µs to 20 s.
var Buckets = []float64{50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 2e7}

// Registry registers collectors with To, which may be nil. Err is the first error.
type Registry struct {
	To  prometheus.Registerer
	Err error
}

// Add registers a collector and returns it.
func Add[T prometheus.Collector](r *Registry, c T) T {
	if r.To != nil && r.Err == nil {
		r.Err = r.To.Register(c)
	}
	return c
}

// Shared registers a collector, or returns the one that is registered under its name already.
func Shared[T prometheus.Collector](r *Registry, c T) T {
	if r.To == nil || r.Err != nil {
		return c
	}
	err := r.To.Register(c)
	var there prometheus.AlreadyRegisteredError
	if errors.As(err, &there) {
		if old, ok := there.ExistingCollector.(T); ok {
			return old
		}
	}
	r.Err = err
	return c
}

// Counter registers a counter.
func (r *Registry) Counter(name, help string) prometheus.Counter {
	return Add(r, prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help}))
}

// Latency registers a histogram of latencies in microseconds.
func (r *Registry) Latency(name, help string) prometheus.Histogram {
	return Add(r, prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: Buckets}))
}

// Count registers a counter whose value f returns.
func (r *Registry) Count(name, help string, f func() uint64) {
	Add(r, prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(f()) }))
}

// Gauge registers a gauge whose value f returns.
func (r *Registry) Gauge(name, help string, f func() float64) {
	Add(r, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f))
}

// Observe adds the time since t0, in microseconds.
func Observe(o prometheus.Observer, t0 time.Time) { o.Observe(float64(time.Since(t0).Microseconds())) }

// Labelled keeps the metrics T of each value of a label. Finding them again costs a fifth of WithLabelValues. There have to be
// few values. Its methods may run concurrently.
type Labelled[T any] struct {
	make func(value string) T
	mu   sync.Mutex // held to add to all
	all  atomic.Pointer[map[string]T]
}

// NewLabelled returns a Labelled without values. make returns the metrics of a new one.
func NewLabelled[T any](make func(value string) T) *Labelled[T] {
	l := &Labelled[T]{make: make}
	l.all.Store(&map[string]T{})
	return l
}

// Of returns the metrics of a value.
func (l *Labelled[T]) Of(value string) T {
	if m, ok := (*l.all.Load())[value]; ok {
		return m
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	all := maps.Clone(*l.all.Load())
	all[value] = l.make(value)
	l.all.Store(&all)
	return all[value]
}
