package node

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooncake-go/mooncake/core/store/internal/promreg"
)

// ssd counts what storage tiers read and write, under upstream's names.
type ssd struct{ read, write, total ssdUse }

// ssdUse is one direction, or both. Latencies are in microseconds.
type ssdUse struct {
	ops, bytes         prometheus.Counter
	latency, quantiles prometheus.Observer
}

func newSSD(r *promreg.Registry) ssd {
	use := func(kind, done string) ssdUse {
		name := "mooncake_ssd_" + kind
		buckets := append(slices.Clone(promreg.Buckets[:len(promreg.Buckets)-1]), 3e7) // As upstream's, up to 30 s.
		return ssdUse{
			ops:   r.Counter(name+"_ops_total", "Objects that storage tiers have "+done+"."),
			bytes: r.Counter(name+"_bytes_total", "Bytes of objects that storage tiers have "+done+"."),
			latency: promreg.Add(r, prometheus.NewHistogram(prometheus.HistogramOpts{
				Name: name + "_latency_us", Help: "Time in microseconds in which storage tiers have " + done + " the objects of one call.", Buckets: buckets,
			})),
			quantiles: promreg.Add(r, prometheus.NewSummary(prometheus.SummaryOpts{
				Name: name + "_latency_summary_us", Help: "Quantiles of this time over the last minute.",
				Objectives: map[float64]float64{0.5: 0.05, 0.9: 0.01, 0.99: 0.001}, MaxAge: time.Minute,
			})),
		}
	}
	return ssd{read: use("read", "read"), write: use("write", "written"), total: use("total", "read or written")}
}

// done counts objects that one call has read or written, bytes of them, since t0.
func (s *ssd) done(use *ssdUse, objects int, bytes uint64, t0 time.Time) {
	if objects == 0 {
		return
	}
	for _, u := range []*ssdUse{use, &s.total} {
		u.ops.Add(float64(objects))
		u.bytes.Add(float64(bytes))
		promreg.Observe(u.latency, t0)
		promreg.Observe(u.quantiles, t0)
	}
}
