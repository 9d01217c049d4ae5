package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooncake-go/mooncake/core/model"
)

// kvEvents adds what became of the events about objects that come and go.
func (l *list) kvEvents() {
	for _, c := range []struct {
		name, help string
		value      func(*model.KVEventStats) uint64
	}{
		{"published", "Events about objects that were published.", func(s *model.KVEventStats) uint64 { return s.Events }},
		{"batches", "Messages in which events were published.", func(s *model.KVEventStats) uint64 { return s.Batches }},
		{"dropped", "Events that a full queue pushed out.", func(s *model.KVEventStats) uint64 { return s.Dropped }},
		{"unparsed_keys", "Events on keys that are no hash.", func(s *model.KVEventStats) uint64 { return s.Skipped }},
		{"missed_batches", "Messages that came too late for a subscriber, counted for each.", func(s *model.KVEventStats) uint64 { return s.Missed }},
	} {
		l.add(prometheus.CounterValue, "master_kv_events_"+c.name+"_total", c.help, func(g *Gauges) float64 { return float64(c.value(&g.KVEvents)) })
	}
	l.gauge("master_kv_events_subscribers", "Number of subscribers of events.", func(g *Gauges) float64 { return float64(g.KVEvents.Subscribers) })
}
