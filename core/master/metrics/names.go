package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooncake-go/mooncake/core/model"
)

// series lists every series without labels.
func series(s *Set) []metric {
	var l list
	l.gauges()
	l.ops(s)
	l.batches(s)
	l.counters(s)
	l.promotions(&s.Promotions)
	l.kvEvents()
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

func (l *list) gauges() {
	l.gauge("master_allocated_bytes", "Bytes that objects occupy in memory segments.", func(g *Gauges) float64 { return float64(g.Used) })
	l.gauge("master_total_capacity_bytes", "Size in bytes of all mounted memory segments.", func(g *Gauges) float64 { return float64(g.Capacity) })
	l.gauge("master_allocated_file_size_bytes", "Bytes that objects occupy on storage tiers.", func(g *Gauges) float64 { return float64(g.TierUsed) })
	l.gauge("master_total_file_capacity_bytes", "Size in bytes of all mounted storage tiers.", func(g *Gauges) float64 { return float64(g.TierCapacity) })
	l.gauge("master_key_count", "Number of objects, unfinished puts included.", func(g *Gauges) float64 { return float64(g.Keys) })
	l.gauge("master_soft_pin_key_count", "Number of objects that are softly pinned.", func(g *Gauges) float64 { return float64(g.SoftPinned) })
	l.gauge("master_active_clients", "Number of clients that are alive.", func(g *Gauges) float64 { return float64(g.Clients) })
	l.gauge("mem_cache_nums_", "Number of readable objects in memory segments.", func(g *Gauges) float64 { return float64(g.InMemory) })
	l.gauge("file_cache_nums_", "Number of readable objects that have a copy on a storage tier.", func(g *Gauges) float64 { return float64(g.Stored) })
	l.gauge("master_open_puts", "Number of unfinished puts.", func(g *Gauges) float64 { return float64(g.Keys - g.Readable) })
	l.gauge("master_followed_segments", "Segments of which a master that does not lead knows what lies there, so that it can take over at once.",
		func(g *Gauges) float64 { return float64(g.FollowedSegments) })
	l.gauge("master_followed_objects", "Copies of objects that lie in the followed segments.", func(g *Gauges) float64 { return float64(g.FollowedPuts) })
	l.gauge("master_open_put_bytes", "Bytes that unfinished puts occupy.", func(g *Gauges) float64 { return float64(g.WritingBytes) })
	l.gauge("master_held_bytes", "Bytes that no object occupies and that cannot be used yet: a writer that was given up or a last reader may still use them.",
		func(g *Gauges) float64 { return float64(g.HeldBytes) })
	l.gauge("master_put_start_discarded_staging_size", "Bytes held back because a writer that was given up may still write there.",
		func(g *Gauges) float64 { return float64(g.StagingBytes) })
	l.gauge("master_tasks_pending", "Number of copies and moves that wait for their client.", func(g *Gauges) float64 { return float64(g.TasksPending) })
	l.gauge("master_tasks_processing", "Number of copies and moves that a client carries out.", func(g *Gauges) float64 { return float64(g.TasksProcessing) })
	l.gauge("master_promotion_in_flight", "Objects that come from storage tiers into memory.", func(g *Gauges) float64 { return float64(g.Promoting) })
	l.gauge("mooncake_tenant_quota_allocatable_capacity_bytes", "Bytes that the tenants' quotas share.",
		func(g *Gauges) float64 { return float64(g.TenantCapacity) })
	l.gauge("mooncake_tenant_quota_requested_bytes_sum", "Bytes of all quotas as the policy says.",
		func(g *Gauges) float64 { return sum(g, func(t *model.TenantQuota) uint64 { return t.Requested }) })
	l.gauge("mooncake_tenant_quota_effective_bytes_sum", "Bytes of all quotas as the capacity allows.",
		func(g *Gauges) float64 { return sum(g, func(t *model.TenantQuota) uint64 { return t.Effective }) })
}

// sum adds in floating point: quotas may be larger together than an integer holds.
func sum(g *Gauges, of func(*model.TenantQuota) uint64) (n float64) {
	for i := range g.Tenants {
		n += float64(of(&g.Tenants[i]))
	}
	return n
}

func (l *list) ops(s *Set) {
	for _, o := range []struct {
		name, what string
		op         *Op
	}{
		{"exist_key", "lookups of one key", &s.Exist.One},
		{"put_start", "puts of one key that began", &s.PutStart.One},
		{"put_end", "puts of one key that ended", &s.PutEnd.One},
		{"put_revoke", "puts of one key that were given up", &s.PutRevoke.One},
		{"get_replica_list", "reads of one key", &s.Get.One},
		{"get_replica_list_by_regex", "reads by expression", &s.GetByRegex},
		{"remove", "removals by key", &s.Remove},
		{"remove_by_regex", "removals by expression", &s.RemoveByRegex},
		{"remove_all", "removals of everything", &s.RemoveAll},
		{"mount_segment", "mounts of a segment", &s.Mount},
		{"unmount_segment", "unmounts of a segment", &s.Unmount},
		{"remount_segment", "remounts by a client", &s.Remount},
		{"ping", "pings of clients", &s.Ping},
		{"copy_start", "copies that began", &s.Copy.Start},
		{"copy_end", "copies that ended", &s.Copy.End},
		{"copy_revoke", "copies that were given up", &s.Copy.Revoke},
		{"move_start", "moves that began", &s.Move.Start},
		{"move_end", "moves that ended", &s.Move.End},
		{"move_revoke", "moves that were given up", &s.Move.Revoke},
		{"create_copy_task", "orders to copy an object", &s.CreateCopyTask},
		{"create_move_task", "orders to move an object", &s.CreateMoveTask},
		{"query_task", "questions after a task", &s.QueryTask},
		{"fetch_tasks", "questions of clients for their tasks", &s.FetchTasks},
		{"update_task", "reports that a task has ended", &s.CompleteTask},
	} {
		l.op(o.name, o.what, o.op)
	}
}

func (l *list) op(name, what string, o *Op) {
	l.counter("master_"+name+"_requests_total", "Number of "+what+".", &o.Requests)
	l.counter("master_"+name+"_failures_total", "Number of "+what+", that failed.", &o.Failures)
}

func (l *list) promotions(p *Promotions) {
	for _, x := range []struct {
		name, what string
		c          *Counter
	}{
		{"admitted", "Copies from storage tiers into memory that began.", &p.Admitted},
		{"completed", "Objects that came from storage tiers into memory.", &p.Completed},
		{"completed_bytes", "Bytes that came from storage tiers into memory.", &p.CompletedBytes},
		{"failed", "Copies from storage tiers into memory that their nodes gave up.", &p.Failed},
		{"expired", "Copies from storage tiers into memory whose nodes fell silent, or took too long.", &p.Expired},
		{"cancelled", "Copies from storage tiers into memory whose objects went meanwhile.", &p.Cancelled},
		{"rejected_watermark", "Copies from storage tiers that were refused because memory was used above the watermark.", &p.RejectedWatermark},
		{"rejected_cap", "Copies from storage tiers that were refused because too many others were in progress.", &p.RejectedCap},
	} {
		l.counter("master_promotion_"+x.name+"_total", x.what, x.c)
	}
}

func (l *list) batches(s *Set) {
	for _, b := range []struct {
		name, what, item string
		batch            *Batch
	}{
		{"exist_key", "lookups of several keys", "key", &s.Exist.Many},
		{"get_replica_list", "reads of several keys", "key", &s.Get.Many},
		{"put_start", "puts of several keys that began", "key", &s.PutStart.Many},
		{"put_end", "puts of several keys that ended", "key", &s.PutEnd.Many},
		{"put_revoke", "puts of several keys that were given up", "key", &s.PutRevoke.Many},
		{"query_ip", "questions after the hosts of clients", "client", &s.QueryHosts},
		{"replica_clear", "clearings of copies", "key", &s.ClearReplicas},
	} {
		for _, f := range []struct {
			suffix, help string
			c            *Counter
		}{
			{"requests", "Number of $what.", &b.batch.Requests},
			{"failures", "Number of $what, in which every $item failed.", &b.batch.Failures},
			{"partial_successes", "Number of $what, in which some but not every $item failed.", &b.batch.Partial},
			{"items", "Number of $items in $what.", &b.batch.Items},
			{"failed_items", "Number of $items that failed in $what.", &b.batch.FailedItems},
		} {
			help := strings.NewReplacer("$what", b.what, "$item", b.item).Replace(f.help)
			l.counter("master_batch_"+b.name+"_"+f.suffix+"_total", help, f.c)
		}
	}
}
