package metrics

import "github.com/prometheus/client_golang/prometheus"

// NewRegistry returns a registry that shows the counters and what read returns, under the
// established names. read is called once for each scrape.
func NewRegistry(s *Set, read func() Gauges) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(&collector{series: series(s), set: s, read: read})
	return r
}

var (
	segmentUsed     = prometheus.NewDesc("segment_allocated_bytes", "Bytes that objects occupy in the segments of this name.", []string{"segment"}, nil)
	segmentCapacity = prometheus.NewDesc("segment_total_capacity_bytes", "Size in bytes of the segments of this name.", []string{"segment"}, nil)
	valueSizes      = prometheus.NewDesc("master_value_size_bytes", "Sizes in bytes of the objects that puts asked room for.", nil, nil)
)

// collector implements prometheus.Collector.
type collector struct {
	series []metric
	set    *Set
	read   func() Gauges
}

// metric is one series without labels.
type metric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*Gauges) float64
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range c.series {
		ch <- m.desc
	}
	ch <- segmentUsed
	ch <- segmentCapacity
	ch <- valueSizes
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	g := c.read()
	for _, m := range c.series {
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&g))
	}
	for _, s := range g.Segments {
		ch <- prometheus.MustNewConstMetric(segmentUsed, prometheus.GaugeValue, float64(s.Used), s.Name)
		ch <- prometheus.MustNewConstMetric(segmentCapacity, prometheus.GaugeValue, float64(s.Capacity), s.Name)
	}
	ch <- c.set.ValueSizes.histogram()
}

func (s *Sizes) histogram() prometheus.Metric {
	buckets, below := make(map[float64]uint64, len(sizeBounds)), uint64(0)
	for i, bound := range sizeBounds {
		below += s.buckets[i].Load()
		buckets[float64(bound)] = below
	}
	below += s.buckets[len(sizeBounds)].Load()
	return prometheus.MustNewConstHistogram(valueSizes, below, float64(s.sum.Load()), buckets)
}
