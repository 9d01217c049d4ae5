package metrics

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// series lists every series without labels.
func series(s *Set) []metric {
	var l list
	l.gauges()
	for _, o := range []struct {
		name, what string
		op         *Op
	}{
		{"exist_key", "lookups of one key", &s.Exist.One},
		{"put_start", "puts of one key that began", &s.PutStart.One},
		{"put_end", "puts of one key that ended", &s.PutEnd.One},
		{"put_revoke", "puts of one key that were given up", &s.PutRevoke.One},
		{"get_replica_list", "reads of one key", &s.Get.One},
		{"remove", "removals by key", &s.Remove},
		{"remove_by_regex", "removals by expression", &s.RemoveByRegex},
		{"remove_all", "removals of everything", &s.RemoveAll},
		{"mount_segment", "mounts of a segment", &s.Mount},
		{"unmount_segment", "unmounts of a segment", &s.Unmount},
		{"remount_segment", "remounts by a client", &s.Remount},
		{"ping", "pings of clients", &s.Ping},
	} {
		l.op(o.name, o.what, o.op)
	}
	for _, name := range unusedOps() {
		l.op(name, name+" calls; not supported, always 0", new(Op))
	}
	for _, b := range []struct {
		name, what string
		batch      *Batch
	}{
		{"exist_key", "lookups of several keys", &s.Exist.Many},
		{"get_replica_list", "reads of several keys", &s.Get.Many},
		{"put_start", "puts of several keys that began", &s.PutStart.Many},
		{"put_end", "puts of several keys that ended", &s.PutEnd.Many},
		{"put_revoke", "puts of several keys that were given up", &s.PutRevoke.Many},
		{"query_ip", "address queries; not supported, always 0", new(Batch)},
		{"replica_clear", "replica clearings; not supported, always 0", new(Batch)},
	} {
		l.batch(b.name, b.what, b.batch)
	}
	l.counters(s)
	l.unused()
	return l
}

type list []metric

func (l *list) add(kind prometheus.ValueType, name, help string, value func(*Gauges) float64) {
	*l = append(*l, metric{desc: prometheus.NewDesc(name, help, nil, nil), kind: kind, value: value})
}

func (l *list) gauge(name, help string, value func(*Gauges) float64) {
	l.add(prometheus.GaugeValue, name, help, value)
}

func (l *list) counter(name, help string, c *Counter) {
	l.add(prometheus.CounterValue, name, help, func(*Gauges) float64 { return float64(c.Load()) })
}

func (l *list) op(name, what string, o *Op) {
	l.counter("master_"+name+"_requests_total", "Number of "+what+".", &o.Requests)
	l.counter("master_"+name+"_failures_total", "Number of "+what+", that failed.", &o.Failures)
}

func (l *list) batch(name, what string, b *Batch) {
	for _, f := range []struct {
		suffix, help string
		c            *Counter
	}{
		{"requests", "Number of %s.", &b.Requests},
		{"failures", "Number of %s, in which every key failed.", &b.Failures},
		{"partial_successes", "Number of %s, in which some keys failed.", &b.Partial},
		{"items", "Number of keys in %s.", &b.Items},
		{"failed_items", "Number of keys that failed in %s.", &b.FailedItems},
	} {
		l.counter("master_batch_"+name+"_"+f.suffix+"_total", fmt.Sprintf(f.help, what), f.c)
	}
}

func (l *list) gauges() {
	l.gauge("master_allocated_bytes", "Bytes that objects occupy in memory segments.", func(g *Gauges) float64 { return float64(g.Used) })
	l.gauge("master_total_capacity_bytes", "Size in bytes of all mounted memory segments.", func(g *Gauges) float64 { return float64(g.Capacity) })
	l.gauge("master_key_count", "Number of objects, unfinished puts included.", func(g *Gauges) float64 { return float64(g.Keys) })
	l.gauge("master_active_clients", "Number of clients that are alive.", func(g *Gauges) float64 { return float64(g.Clients) })
	l.gauge("mem_cache_nums_", "Number of readable objects in memory segments.", func(g *Gauges) float64 { return float64(g.Readable) })
	l.gauge("master_put_start_discarded_staging_size", "Bytes held back because a writer that was given up may still write there.",
		func(g *Gauges) float64 { return float64(g.StagingBytes) })
}

func (l *list) counters(s *Set) {
	l.counter("master_put_start_alloc_failures_total", "Number of puts that found no room.", &s.AllocFailures)
	l.counter("master_put_start_partial_allocations_total", "Number of puts that got fewer copies than they asked for.", &s.PartialAllocs)
	l.counter("mem_cache_hit_nums_", "Number of reads answered from memory segments.", &s.MemHits)
	l.counter("mem_cache_hit_bytes_total", "Bytes of the reads answered from memory segments.", &s.MemHitBytes)
	l.counter("valid_get_nums_", "Number of keys read that had a readable copy.", &s.ValidGets)
	l.counter("total_get_nums_", "Number of keys read.", &s.Gets)
	for _, tier := range []string{"", "_mem"} {
		suffix := "_total"
		if tier != "" {
			suffix = ""
		}
		l.counter("master_successful_evictions"+tier+suffix, "Number of evictions that freed something.", &s.EvictSuccesses)
		l.counter("master_attempted_evictions"+tier+suffix, "Number of evictions that began.", &s.EvictAttempts)
		l.counter("master_evicted_key_count"+tier, "Number of objects evicted.", &s.EvictedKeys)
		l.counter("master_evicted_size_bytes"+tier, "Bytes of the objects evicted.", &s.EvictedBytes)
	}
	l.counter("master_put_start_discard_cnt", "Number of unfinished puts that were given up.", &s.Discarded)
	l.counter("master_put_start_release_cnt", "Number of copies of given-up puts whose memory was freed.", &s.Released)
}
