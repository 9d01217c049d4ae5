package master

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooncake-go/mooncake/core/master/metrics"
)

// report writes the log line in both wordings that log scrapers look for.
func (s *Service) report(context.Context) {
	text := s.Summary()
	s.summary.Mark()
	s.log.Info("Master Metrics: " + text)
	s.log.Info(metrics.Serving().LogLine(text))
}

// Summary is the text of the master's part of /metrics/summary and of the log line; its
// rates are over the time since the last log line.
func (s *Service) Summary() string {
	return s.summary.Text(s.gauges())
}

// Metrics is the source of /metrics.
func (s *Service) Metrics() prometheus.Gatherer { return s.gatherer }

// ObserveRPC counts one call over the network, for the latency histograms.
func (s *Service) ObserveRPC(method string, took time.Duration) { s.counters.RPC.Observe(method, took) }

// ObserveForeign counts a connection to the RPC port that was turned away, by its protocol.
func (s *Service) ObserveForeign(protocol string) { s.counters.ForeignConnections.Add(1, protocol) }

func (s *Service) gauges() metrics.Gauges {
	v := s.registry.View()
	g := metrics.Gauges{
		Capacity: v.Capacity, Keys: s.table.Len(), Readable: s.table.Readable(),
		Clients: s.clients.Len(), StagingBytes: s.pool.StagingBytes(), SoftPinned: s.table.SoftPinned(),
	}
	g.KVEvents = s.KVEvents()
	t := s.tasks.Stats()
	g.TasksPending, g.TasksProcessing = t.Pending, t.Processing
	if s.tenants != nil {
		g.Tenants, g.TenantCapacity = s.ledger.List(), s.ledger.Totals().Capacity
	}
	names := map[string]metrics.SegmentGauge{}
	for _, m := range v.All {
		n, seen := names[m.Name]
		if w := m.Weight(); !seen || w < n.Weight {
			n.Weight = w
		}
		n.Name = m.Name
		n.Used += m.Used()
		n.Capacity += m.Size
		g.Used += m.Used()
		names[m.Name] = n
	}
	g.Segments = slices.Collect(maps.Values(names))
	return g
}
