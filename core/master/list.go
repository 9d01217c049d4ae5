package master

import (
	"container/heap"
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooncake-go/mooncake/core/master/metrics"
	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// maxList is the most keys that one ListKeys returns.
const maxList = 1 << 16

// ListKeys returns up to limit keys after a key, sorted and each once; more than 65536 come in several
// calls. It looks at every key there is, a few hundred at a time, so that no other call waits for all of it. A key that is readable
// all the while is there; one that comes, goes or is put anew meanwhile may be there.
func (s *Service) ListKeys(ctx context.Context, caller model.Caller, expr string, after model.Key, limit int) ([]model.Key, error) {
	return s.list(ctx, "master: list keys", caller, expr, after, limit)
}

func (s *Service) list(ctx context.Context, op string, caller model.Caller, expr string, after model.Key, limit int) ([]model.Key, error) {
	c, err := s.admitted(ctx, op, caller, 0)
	if err != nil {
		return nil, err
	}
	if limit < 1 {
		return nil, errs.New(errs.InvalidParams, op, "the limit is %d; it must be at least 1", limit)
	}
	var re *regexp.Regexp
	if expr != "" {
		if re, err = compile(op, expr); err != nil {
			return nil, err
		}
	}
	first := smallest{limit: min(limit, maxList), have: map[model.Key]struct{}{}}
	var names []string
	for at, more := objects.Cursor(0), true; more; more = at != 0 {
		if err := ctx.Err(); err != nil {
			return nil, errs.Wrap(errs.RPCTimeout, op, err)
		}
		names, at = s.table.Keys(at, false, names[:0])
		for _, name := range names {
			if k, ok := c.key(name); ok && k > after && first.wants(k) && (re == nil || re.MatchString(k)) {
				first.offer(k)
			}
		}
	}
	out := []model.Key(first.keys)
	slices.Sort(out)
	return out, nil
}

// WalkKeys calls yield for every readable key of the default tenant until it returns
// false. No lock is held meanwhile.
func (s *Service) WalkKeys(yield func(model.Key) bool) {
	c := s.defaultScope()
	var names []string
	for at, more := objects.Cursor(0), true; more; more = at != 0 {
		names, at = s.table.Keys(at, false, names[:0])
		for _, name := range names {
			if k, ok := c.key(name); ok && !yield(strings.Clone(k)) {
				return
			}
		}
	}
}

// smallest keeps the smallest keys it was offered, each once.
type smallest struct {
	limit int
	keys  maxHeap
	have  map[model.Key]struct{}
}

func (s *smallest) wants(k model.Key) bool { return len(s.keys) < s.limit || k < s.keys[0] }

func (s *smallest) offer(k model.Key) {
	if _, again := s.have[k]; again {
		return
	}
	k = strings.Clone(k)
	s.have[k] = struct{}{}
	if len(s.keys) < s.limit {
		heap.Push(&s.keys, k)
		return
	}
	delete(s.have, s.keys[0])
	s.keys[0] = k
	heap.Fix(&s.keys, 0)
}

// maxHeap has the greatest key first.
type maxHeap []model.Key

func (h maxHeap) Len() int           { return len(h) }
func (h maxHeap) Less(i, j int) bool { return h[i] > h[j] }
func (h maxHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *maxHeap) Push(x any) { *h = append(*h, x.(model.Key)) }

// Pop implements heap.Interface.
func (h *maxHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// report writes the log line in both wordings that log scrapers look for.
func (s *Service) report(context.Context) {
	text := s.Summary()
	s.summary.Mark()
	s.log.Info("Master Metrics: " + text)
	s.log.Info(s.status().LogLine(text))
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

// ObserveUpstreamConnections counts the connections of upstream's clients, by how many they become more.
func (s *Service) ObserveUpstreamConnections(more int) {
	s.counters.UpstreamConnections.Add(int64(more))
}

// ObserveRequestMemory counts the memory that large requests take, in bytes.
func (s *Service) ObserveRequestMemory(bytes int64) { s.counters.RequestMemory.Add(bytes) }

// ObserveRequestWait counts a large request that waits for memory.
func (s *Service) ObserveRequestWait() { s.counters.RequestWaits.Add(1) }

// ObserveConnClosed counts a connection to the RPC port that was closed because there were too many.
func (s *Service) ObserveConnClosed(why string) { s.counters.ConnectionsClosed.Add(1, why) }

func (s *Service) gauges() metrics.Gauges {
	if s.phase() == following { // Its table is that of the leader.
		g := metrics.Gauges{}
		g.FollowedSegments, g.FollowedPuts = s.followed()
		return g
	}
	v := s.registry.View()
	g := metrics.Gauges{
		Used: v.Used(), Capacity: v.Capacity, Keys: s.table.Len(), Readable: s.table.Readable(), InMemory: s.table.InMemory(), Stored: s.table.Stored(),
		Clients: s.clients.Len(), WritingBytes: s.table.WritingBytes(), HeldBytes: s.pool.HeldBytes(), StagingBytes: s.pool.StagingBytes(), SoftPinned: s.table.SoftPinned(), Promoting: s.table.Promoting(),
	}
	g.KVEvents = s.KVEvents()
	t := s.tasks.Stats()
	g.TasksPending, g.TasksProcessing = t.Pending, t.Processing
	if s.tenants != nil {
		g.Tenants, g.TenantCapacity = s.usage.List(), s.usage.Totals().Capacity
	}
	names := map[string]metrics.SegmentGauge{}
	for _, m := range v.Tiers {
		g.TierUsed += m.Used()
		g.TierCapacity += m.Size
	}
	for _, m := range v.All {
		if m.OnTier() {
			continue
		}
		n, seen := names[m.Name]
		if w := m.Weight(); !seen || w < n.Weight {
			n.Weight = w
		}
		n.Name = m.Name
		n.Used += m.Used()
		n.Capacity += m.Size
		names[m.Name] = n
	}
	g.Segments = slices.Collect(maps.Values(names))
	return g
}
