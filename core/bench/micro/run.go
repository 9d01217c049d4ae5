// Package micro measures what this machine and its plugins can do at best, without a
// cluster: memory, checksum, content, allocators, eviction policies and transports, each
// beside a baseline: a copy in memory, or plain TCP connections. It is what `mooncake bench` runs.
//
// Figures are medians over rounds. They are for comparison on one machine at one time; no
// test asserts them.
package micro

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/measure"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Options says how carefully to measure. Zero values mean the defaults.
type Options struct {
	// Rounds is how often each operation is measured, default 5, at most 1000.
	Rounds int
	// RoundTime is the least time of a round, default 50 ms, at most a minute.
	RoundTime time.Duration
	// ColdBytes is the memory that the cold copies run over, default 128 MiB, at least
	// 2 MiB and at most 4 GiB. It should exceed the caches.
	ColdBytes int
	// Log gets what plugins log. Nothing is logged without it.
	Log *slog.Logger
	// Each is called with every result as it comes, where it is set.
	Each func(Result)
}

func (o Options) withDefaults() Options {
	def := func(v *int, standard, lo, hi int) {
		if *v == 0 {
			*v = standard
		}
		*v = min(max(*v, lo), hi)
	}
	def(&o.Rounds, 5, 1, 1000)
	def(&o.ColdBytes, 128<<20, 2<<20, 4<<30)
	if o.RoundTime <= 0 {
		o.RoundTime = 50 * time.Millisecond
	}
	o.RoundTime = min(o.RoundTime, time.Minute)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Suite is a group of measurements, made by Memory, Alloc, Evict and Transport.
type Suite struct {
	// Name is what is measured: memory, or the id of a plugin.
	Name string
	run  func(ctx context.Context, m *meter) error
}

// Run measures suites one after the other. A suite that fails is named in the error and
// does not keep the others from running; the results of all are returned.
func Run(ctx context.Context, opts Options, suites ...Suite) (Results, error) {
	opts = opts.withDefaults()
	all := Results{}
	var failed []error
	for _, s := range suites {
		m := &meter{Options: opts, suite: s.Name}
		if err := s.run(ctx, m); err != nil {
			failed = append(failed, fmt.Errorf("bench %s: %w", s.Name, err))
		}
		all = append(all, m.results...)
		if ctx.Err() != nil {
			break
		}
	}
	return all, errors.Join(failed...)
}

// meter measures the operations of one suite.
type meter struct {
	Options
	suite   string
	results Results
}

// maxOps bounds the operations of a round.
const maxOps = 1 << 30

// measure times do, which runs an operation n times, and appends the result. baseline
// is the result to compare with, nil for none.
func (m *meter) measure(ctx context.Context, name string, bytes int, baseline *Result, do func(n int) error) (Result, error) {
	// Warm up and find how many operations fill a round.
	n := 1
	for {
		took, err := m.round(ctx, n, do)
		if err != nil {
			return Result{}, fmt.Errorf("%s: %w", name, err)
		}
		if took >= m.RoundTime || n >= maxOps {
			break
		}
		grow := 100.0
		if took > 0 {
			grow = min(grow, 1.2*float64(m.RoundTime)/float64(took))
		}
		n = min(max(n+1, int(float64(n)*grow)), maxOps)
	}
	perOp := make([]float64, m.Rounds)
	for i := range perOp {
		took, err := m.round(ctx, n, do)
		if err != nil {
			return Result{}, fmt.Errorf("%s: %w", name, err)
		}
		perOp[i] = max(float64(took), 1) / float64(n)
	}
	r := Result{Suite: m.suite, Name: name, Bytes: bytes, NsPerOp: measure.Median(perOp)}
	r.GBps = float64(bytes) / r.NsPerOp
	if baseline != nil {
		r.Baseline, r.OfBaseline = baseline.Name, baseline.NsPerOp/r.NsPerOp
	}
	m.results = append(m.results, r)
	if m.Each != nil {
		m.Each(r)
	}
	return r, nil
}

func (m *meter) round(ctx context.Context, n int, do func(int) error) (time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	start := time.Now()
	err := do(n)
	return time.Since(start), err
}

// cleanupTimeout bounds what is done after a measurement.
const cleanupTimeout = 10 * time.Second

// host is what a plugin under measurement gets.
type host struct{ log *slog.Logger }

func (h host) Logger() *slog.Logger { return h.log }
func (h host) Report(plugin.Health) {}

// started runs do with a started component and stops it.
func (m *meter) started(ctx context.Context, c plugin.Component, do func() error) error {
	if err := c.Start(ctx, host{m.Log}); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	err := do()
	return errors.Join(err, cleanup(ctx, c.Stop))
}
