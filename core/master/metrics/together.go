package metrics

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
)

// Together returns the metrics of several masters as those of one: equal series are added, but for the few of which the largest
// one counts.
func Together(masters []prometheus.Gatherer) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		var out []*dto.MetricFamily
		byName := map[string]*dto.MetricFamily{}
		for _, m := range masters {
			families, err := m.Gather()
			if err != nil {
				return nil, err
			}
			for _, f := range families {
				sum := byName[f.GetName()]
				if sum == nil {
					byName[f.GetName()] = f
					out = append(out, f)
					continue
				}
				addFamily(sum, f)
			}
		}
		slices.SortFunc(out, func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) })
		return out, nil
	})
}

// largest are the gauges that are the same thing in each master.
func largest(name string) bool {
	switch name {
	case "master_active_clients", "segment_weight",
		"mooncake_tenant_quota_admission_closed", "mooncake_tenant_quota_over_quota", "mooncake_tenant_quota_explicit_policy":
		return true
	}
	return false
}

func addFamily(to, from *dto.MetricFamily) {
	for _, m := range from.GetMetric() {
		i := slices.IndexFunc(to.GetMetric(), func(t *dto.Metric) bool {
			return slices.EqualFunc(t.GetLabel(), m.GetLabel(), func(a, b *dto.LabelPair) bool { return a.GetName() == b.GetName() && a.GetValue() == b.GetValue() })
		})
		if i < 0 {
			to.Metric = append(to.Metric, m)
			continue
		}
		t := to.Metric[i]
		switch {
		case t.Gauge != nil && largest(to.GetName()):
			t.Gauge.Value = proto.Float64(max(t.Gauge.GetValue(), m.GetGauge().GetValue()))
		case t.Gauge != nil:
			t.Gauge.Value = proto.Float64(t.Gauge.GetValue() + m.GetGauge().GetValue())
		case t.Counter != nil:
			t.Counter.Value = proto.Float64(t.Counter.GetValue() + m.GetCounter().GetValue())
		case t.Histogram != nil:
			addHistogram(t.Histogram, m.GetHistogram())
		}
	}
}

// addHistogram adds histograms of the same metric, which have the same buckets.
func addHistogram(to, from *dto.Histogram) {
	to.SampleCount = proto.Uint64(to.GetSampleCount() + from.GetSampleCount())
	to.SampleSum = proto.Float64(to.GetSampleSum() + from.GetSampleSum())
	for i, b := range to.GetBucket() {
		if i < len(from.GetBucket()) {
			b.CumulativeCount = proto.Uint64(b.GetCumulativeCount() + from.GetBucket()[i].GetCumulativeCount())
		}
	}
}
