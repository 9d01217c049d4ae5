package transfer

import (
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/measure"
)

// Row is one measured load. The JSON keys are relied on by scripts: they are added to and
// never renamed. GB is 10^9 bytes; latencies are microseconds.
type Row struct {
	Transport string `json:"transport"`
	// Streams is the number of connections to the target, 0 where the transport has none.
	Streams int `json:"streams,omitempty"`
	// Async is Session.Async.
	Async     bool   `json:"async"`
	Operation string `json:"operation"`
	BlockSize uint64 `json:"block_size"`
	BatchSize int    `json:"batch_size"`
	Threads   int    `json:"threads"`
	// Skipped says why nothing was measured.
	Skipped string `json:"skipped,omitempty"`

	// GBps is the median over the rounds of the speed of all threads together; Least and
	// Most are the slowest and the fastest round.
	GBps      float64 `json:"gbps"`
	LeastGBps float64 `json:"gbps_min"`
	MostGBps  float64 `json:"gbps_max"`
	// BatchGBps is the speed of one thread within a batch: the bytes of a batch by the mean
	// time of one.
	BatchGBps float64 `json:"gbps_batch"`
	// RequestUs is the mean time a request takes the run as a whole: elapsed time by the number of requests.
	RequestUs float64 `json:"request_us"`
	// MeanUs to MaxUs are the times of whole batches, over all rounds.
	MeanUs float64 `json:"batch_mean_us"`
	P50Us  float64 `json:"batch_p50_us"`
	P90Us  float64 `json:"batch_p90_us"`
	P99Us  float64 `json:"batch_p99_us"`
	P999Us float64 `json:"batch_p999_us"`
	MaxUs  float64 `json:"batch_max_us"`
	// Batches and Bytes were moved in Seconds, all rounds together.
	Batches uint64  `json:"batches"`
	Bytes   uint64  `json:"bytes"`
	Seconds float64 `json:"seconds"`

	// Content is what the check found, nil without one.
	Content *Content `json:"content,omitempty"`
	// Limit is what the same machine gives without the engine, the median of a measurement
	// after each round. OfLimit is the median of the rounds' shares of it.
	Limit   *Limit  `json:"limit,omitempty"`
	OfLimit float64 `json:"of_limit,omitempty"`
}

func newRow(l Load, o SweepOptions, async bool) Row {
	return Row{
		Transport: o.Transport, Streams: o.Streams, Async: async, Operation: KindName(l.Kind),
		BlockSize: l.Block, BatchSize: l.Batch, Threads: l.Threads,
	}
}

// RowOf is the row of a single measurement.
func (s *Session) RowOf(l Load, transport string, streams int, sample Sample, c *Content) Row {
	r := newRow(l, SweepOptions{Transport: transport, Streams: streams}, s.Async)
	r.fill(sample, []float64{sample.GBps()})
	r.Content = c
	return r
}

// fill takes the figures over: those of all rounds together, and the speed of each.
func (r *Row) fill(sum Sample, speeds []float64) {
	r.Batches, r.Bytes, r.Seconds = sum.Batches, sum.Bytes, sum.Elapsed.Seconds()
	if sum.Batches == 0 || len(speeds) == 0 {
		return
	}
	r.LeastGBps, r.MostGBps = slices.Min(speeds), slices.Max(speeds)
	r.GBps = measure.Median(speeds)
	mean := sum.Busy / time.Duration(sum.Batches)
	r.BatchGBps = float64(r.BlockSize) * float64(r.BatchSize) / float64(max(mean, 1))
	r.RequestUs = measure.Micros(sum.Elapsed) / float64(sum.Batches) / float64(r.BatchSize)
	r.MeanUs = measure.Micros(sum.Busy) / float64(sum.Batches)
	at := func(q float64) float64 { return measure.Micros(sum.Latency.Quantile(q)) }
	r.P50Us, r.P90Us, r.P99Us, r.P999Us, r.MaxUs = at(0.5), at(0.9), at(0.99), at(0.999), at(1)
}
