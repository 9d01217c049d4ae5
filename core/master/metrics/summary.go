package metrics

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// Summary writes the one-line summary of a Set. Its rates are over the time since the last
// Mark. Safe for concurrent use.
type Summary struct {
	set *Set

	mu     sync.Mutex
	since  time.Time
	before window
}

// NewSummary starts the first window.
func NewSummary(s *Set) *Summary { return &Summary{set: s, since: time.Now(), before: s.window()} }

// Mark starts a new window; called after each periodic log line.
func (y *Summary) Mark() {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.since, y.before = time.Now(), y.set.window()
}

// Text returns the summary in the layout that existing scripts parse.
func (y *Summary) Text(g Gauges) string {
	y.mu.Lock()
	now, before, seconds := y.set.window(), y.before, time.Since(y.since).Seconds()
	y.mu.Unlock()
	r := rates{seconds}
	sections := []string{
		"Mem Storage: " + usage(g.Used, g.Capacity), "NVMe-oF SSD: 0 B / 0 B", "SSD Storage: " + Bytes(g.TierUsed) + " / " + Bytes(g.TierCapacity),
		fmt.Sprintf("Keys: %d (soft-pinned: %d)", g.Keys, g.SoftPinned),
		fmt.Sprintf("Clients: %d", g.Clients),
		"Requests (Success/Total per sec): " + r.ops(y.set.ops(), now.ops, before.ops, "%s=%s"),
		"Batch Requests (per sec, Req=Success/PartialSuccess/Total, Item=Success/Total): " +
			r.batches(y.set.batches(), now.batches, before.batches) + ", " +
			r.ops(y.set.tasks(), now.tasks, before.tasks, "%s:(Req=%s)"),
	}
	return strings.Join(append(sections, y.totals(g)...), " | ")
}

// totals are the sections that count since the start.
func (y *Summary) totals(g Gauges) []string {
	s, p := y.set, &y.set.Promotions
	evictions := fmt.Sprintf("Success/Attempts=%d/%d", s.EvictSuccesses.Load(), s.EvictAttempts.Load())
	evicted := fmt.Sprintf("keys=%d, size=%s", s.EvictedKeys.Load(), Bytes(s.EvictedBytes.Load()))
	return []string{
		fmt.Sprintf("Eviction: %s, AllocFail=%d, PartialAlloc=%d, %s", evictions, s.AllocFailures.Load(), s.PartialAllocs.Load(), evicted),
		fmt.Sprintf("Mem Eviction: %s, %s", evictions, evicted),
		"NoF Eviction: Success/Attempts=0/0, keys=0, size=0 B",
		fmt.Sprintf("Discard: Released/Total=%d/%d, StagingSize=%s", s.Released.Load(), s.Discarded.Load(), Bytes(g.StagingBytes)),
		fmt.Sprintf("Promotion: in_flight=%d, admitted=%d, completed=%d, failed=%d, cancelled=%d, expired=%d, bytes=%s, rejected(freq/wm/cap)=0/%d/%d", g.Promoting,
			p.Admitted.Load(), p.Completed.Load(), p.Failed.Load(), p.Cancelled.Load(), p.Expired.Load(), Bytes(p.CompletedBytes.Load()), p.RejectedWatermark.Load(), p.RejectedCap.Load()),
		"Snapshots: Success=0, Fail=0",
	}
}

// rates divides by the length of the window.
type rates struct{ seconds float64 }

func (r rates) of(now, before uint64) float64 {
	if r.seconds <= 0 || now < before {
		return 0
	}
	return float64(now-before) / r.seconds
}

func (r rates) ops(names []counted[*Op], now, before []opCount, format string) string {
	parts := make([]string, len(names))
	for i, o := range names {
		n, was := now[i], before[i]
		parts[i] = fmt.Sprintf(format, o.name, fmt.Sprintf("%.2f/%.2f", r.of(n.total-n.failed, was.total-was.failed), r.of(n.total, was.total)))
	}
	return strings.Join(parts, ", ")
}

func (r rates) batches(names []counted[*Batch], now, before []batchCount) string {
	parts := make([]string, len(names))
	for i, b := range names {
		n, was := now[i], before[i]
		parts[i] = fmt.Sprintf("%s:(Req=%.2f/%.2f/%.2f, Item=%.2f/%.2f)", b.name,
			r.of(n.total-n.failed-n.partial, was.total-was.failed-was.partial), r.of(n.partial, was.partial), r.of(n.total, was.total),
			r.of(n.items-n.failedItems, was.items-was.failedItems), r.of(n.items, was.items))
	}
	return strings.Join(parts, ", ")
}

// Bytes formats a size as the summary shows it: "0 B", "3.19 MB".
func Bytes(n uint64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	units := [...]string{"KB", "MB", "GB", "TB", "PB", "EB"}
	x, i := float64(n)/(1<<10), 0
	for x >= 1<<10 && i < len(units)-1 {
		x /= 1 << 10
		i++
	}
	return fmt.Sprintf("%.2f %s", x, units[i])
}

// usage formats used and capacity, with the share where there is a capacity.
func usage(used, capacity uint64) string {
	s := Bytes(used) + " / " + Bytes(capacity)
	if capacity > 0 {
		s += fmt.Sprintf(" (%.1f%%)", 100*float64(used)/float64(capacity))
	}
	return s
}

// HASummary is the high-availability part of the log line for a master without it.
const HASummary = "HA Metrics Summary: last_seq=0, applied_seq=0, lag=0, pending=0, mutation_queue=0, batch_commits=0, sync_commits=0, " +
	"skipped=0, checksum_fail=0, etcd_fail=0, watch_disconn=0, state=0"

// Status is what the master is at the moment, in upstream's words.
type Status struct {
	// Role is leader or standby; State starting, standby, candidate, recovering,
	// catching_up, leader_warmup or serving.
	Role, State string
	// Ready is true while the master answers calls on objects.
	Ready bool
	// Leader is the address of the leader, empty where none is known or there is no high
	// availability; View the number of its leadership.
	Leader string
	View   uint64
	// Etcd is what the etcd member of this master is doing, empty for none.
	Etcd string
}

// StatusFunc returns what the master is at the moment. Safe for concurrent use.
type StatusFunc func() Status

// Serving is the status of a master without high availability.
func Serving() Status { return Status{Role: "leader", State: "serving", Ready: true} }

// Line wraps the master's summary into the line of /metrics/summary.
func (s Status) Line(summary string) string {
	line := fmt.Sprintf("role=%s, state=%s, service_ready=%t, master={%s}, ha={%s}", s.Role, s.State, s.Ready, summary, HASummary)
	if s.Leader != "" {
		line += fmt.Sprintf(", leader=%s, view_version=%d", s.Leader, s.View)
	}
	return line
}

// LogLine is the line that log scrapers look for.
func (s Status) LogLine(summary string) string { return "Master Admin Metrics: " + s.Line(summary) }
