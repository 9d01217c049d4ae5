package member

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooncake-go/mooncake/core/config"
)

// reporter writes the metrics of a client or node to the log, periodically.
type reporter struct {
	from      prometheus.Gatherer
	log       *slog.Logger
	bandwidth bool
	cancel    context.CancelFunc
	loop      sync.WaitGroup

	// last are the bytes read and written as of the last line, at its time.
	last map[string]float64
	at   time.Time
}

// startReporter writes a line each client_metric_interval until stop.
func startReporter(from prometheus.Gatherer, s config.Store, log *slog.Logger) *reporter {
	ctx, cancel := context.WithCancel(context.Background())
	r := &reporter{from: from, log: log, bandwidth: s.ClientMetricBandwidth, cancel: cancel, last: map[string]float64{}, at: time.Now()}
	r.loop.Go(func() {
		ticker := time.NewTicker(s.ClientMetricInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-ticker.C:
				r.write(now)
			}
		}
	})
	return r
}

func (r *reporter) stop() {
	r.cancel()
	r.loop.Wait()
}

// reported are the series of the line: its names for them, in its order.
func reported() [][2]string {
	return [][2]string{
		{"read_bytes", "mooncake_transfer_read_bytes"}, {"write_bytes", "mooncake_transfer_write_bytes"},
		{"get", "mooncake_transfer_get_latency"}, {"put", "mooncake_transfer_put_latency"},
		{"batch_get", "mooncake_transfer_batch_get_latency"}, {"batch_put", "mooncake_transfer_batch_put_latency"},
		{"rpc", "mooncake_client_rpc_latency"},
	}
}

// write makes one line: bytes, with their rates since the last line where bandwidth is
// asked for, and of each operation how often it ran and its mean time in microseconds.
func (r *reporter) write(now time.Time) {
	sums, counts, err := totals(r.from)
	if err != nil {
		r.log.Warn("the metrics could not be read", "error", err)
		return
	}
	took := now.Sub(r.at).Seconds()
	var attrs []any
	for _, series := range reported() {
		name, sum := series[0], sums[series[1]]
		if strings.HasSuffix(name, "_bytes") {
			attrs = append(attrs, name, uint64(sum))
			if r.bandwidth && took > 0 {
				attrs = append(attrs, name+"_per_second", uint64(max(sum-r.last[name], 0)/took))
			}
			r.last[name] = sum
			continue
		}
		n := counts[series[1]]
		attrs = append(attrs, name+"_count", n, name+"_mean_us", uint64(sum/float64(max(n, 1))))
	}
	r.at = now
	r.log.Info("client metrics", attrs...)
}

// totals adds the series of each name: the values of counters, and the totals and counts of
// histograms.
func totals(from prometheus.Gatherer) (sums map[string]float64, counts map[string]uint64, err error) {
	families, err := from.Gather()
	if err != nil {
		return nil, nil, err
	}
	sums, counts = map[string]float64{}, map[string]uint64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			sums[f.GetName()] += m.GetCounter().GetValue() + m.GetHistogram().GetSampleSum()
			counts[f.GetName()] += m.GetHistogram().GetSampleCount()
		}
	}
	return sums, counts, nil
}
