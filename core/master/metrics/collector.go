package metrics

import "github.com/prometheus/client_golang/prometheus"

// NewRegistry returns a registry that shows the counters and what read returns, under the
// established names. read is called once for each scrape.
func NewRegistry(s *Set, read func() Gauges) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(&collector{series: series(s), hists: histograms(s), labels: labelled(), set: s, read: read})
	return r
}

// collector implements prometheus.Collector.
type collector struct {
	series []metric
	hists  []histMetric
	labels labelDescs
	set    *Set
	read   func() Gauges
}

// metric is one series without labels.
type metric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*Gauges) float64
}

// histMetric is one histogram without labels.
type histMetric struct {
	desc   *prometheus.Desc
	hist   *histogram
	bounds []uint64
	unit   float64
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range c.series {
		ch <- m.desc
	}
	for _, m := range c.hists {
		ch <- m.desc
	}
	c.labels.describe(ch)
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	g := c.read()
	for _, m := range c.series {
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&g))
	}
	for _, m := range c.hists {
		ch <- m.hist.metric(m.desc, m.bounds, m.unit)
	}
	c.labels.collect(ch, c.set, &g)
}
