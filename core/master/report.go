package master

import (
	"context"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooncake-go/mooncake/core/master/metrics"
)

// report writes the log line in both wordings that log scrapers look for.
func (s *Service) report(context.Context) {
	text := s.Summary()
	s.summary.Mark()
	s.log.Info("Master Metrics: " + text)
	s.log.Info("Master Admin Metrics: role=leader, state=serving, service_ready=true, master={" + text + "}, ha={" + metrics.HASummary + "}")
}

// Summary is the text of the master's part of /metrics/summary and of the log line; its
// rates are over the time since the last log line.
func (s *Service) Summary() string {
	return s.summary.Text(s.gauges())
}

// Metrics is the source of /metrics.
func (s *Service) Metrics() prometheus.Gatherer { return s.gatherer }

func (s *Service) gauges() metrics.Gauges {
	v := s.registry.View()
	g := metrics.Gauges{
		Capacity: v.Capacity, Keys: s.table.Len(), Readable: s.table.Readable(),
		Clients: s.clients.Len(), StagingBytes: s.pool.StagingBytes(),
	}
	names := map[string]metrics.SegmentGauge{}
	for _, m := range v.All {
		n := names[m.Name]
		n.Name = m.Name
		n.Used += m.Used()
		n.Capacity += m.Size
		g.Used += m.Used()
		names[m.Name] = n
	}
	g.Segments = slices.Collect(maps.Values(names))
	return g
}
