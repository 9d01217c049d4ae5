package metrics

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// HASummary is the high-availability part of the log line for a master without it.
const HASummary = "HA Metrics Summary: last_seq=0, applied_seq=0, lag=0, pending=0, mutation_queue=0, batch_commits=0, sync_commits=0, " +
	"skipped=0, checksum_fail=0, etcd_fail=0, watch_disconn=0, state=0"

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
	rate := func(after, before uint64) float64 {
		if seconds <= 0 {
			return 0
		}
		return float64(after-before) / seconds
	}
	s := y.set
	var b strings.Builder
	fmt.Fprintf(&b, "Mem Storage: %s | NVMe-oF SSD: 0 B / 0 B | SSD Storage: 0 B / 0 B | Keys: %d (soft-pinned: 0) | Clients: %d",
		usage(g.Used, g.Capacity), g.Keys, g.Clients)
	b.WriteString(" | Requests (Success/Total per sec): ")
	for i, o := range now.ops {
		was := before.ops[i]
		fmt.Fprintf(&b, "%s=%.2f/%.2f, ", opNames[i], rate(o.total-o.failed, was.total-was.failed), rate(o.total, was.total))
	}
	b.WriteString("CopyStart=0.00/0.00, CopyEnd=0.00/0.00, CopyRevoke=0.00/0.00, MoveStart=0.00/0.00, MoveEnd=0.00/0.00, " +
		"MoveRevoke=0.00/0.00, EvictDiskReplica=0.00/0.00")
	b.WriteString(" | Batch Requests (per sec, Req=Success/PartialSuccess/Total, Item=Success/Total): ")
	for i, x := range now.batches {
		was := before.batches[i]
		fmt.Fprintf(&b, "%s:(Req=%.2f/%.2f/%.2f, Item=%.2f/%.2f), ", batchNames[i],
			rate(x.total-x.failed-x.partial, was.total-was.failed-was.partial), rate(x.partial, was.partial), rate(x.total, was.total),
			rate(x.items-x.failedItems, was.items-was.failedItems), rate(x.items, was.items))
	}
	const none = ":(Req=0.00/0.00/0.00, Item=0.00/0.00), "
	b.WriteString("QueryIp" + none + "Clear" + none + "CreateMoveTask:(Req=0.00/0.00), CreateCopyTask:(Req=0.00/0.00), " +
		"QueryTask:(Req=0.00/0.00), FetchTasks:(Req=0.00/0.00), MarkTaskToComplete:(Req=0.00/0.00)")
	success, attempts := s.EvictSuccesses.Load(), s.EvictAttempts.Load()
	keys, size := s.EvictedKeys.Load(), Bytes(s.EvictedBytes.Load())
	fmt.Fprintf(&b, " | Eviction: Success/Attempts=%d/%d, AllocFail=%d, PartialAlloc=%d, keys=%d, size=%s",
		success, attempts, s.AllocFailures.Load(), s.PartialAllocs.Load(), keys, size)
	fmt.Fprintf(&b, " | Mem Eviction: Success/Attempts=%d/%d, keys=%d, size=%s", success, attempts, keys, size)
	b.WriteString(" | NoF Eviction: Success/Attempts=0/0, keys=0, size=0 B")
	fmt.Fprintf(&b, " | Discard: Released/Total=%d/%d, StagingSize=%s", s.Released.Load(), s.Discarded.Load(), Bytes(g.StagingBytes))
	b.WriteString(" | Promotion: in_flight=0, admitted=0, completed=0, failed=0, cancelled=0, expired=0, bytes=0 B, rejected(freq/wm/cap)=0/0/0" +
		" | Snapshots: Success=0, Fail=0")
	return b.String()
}
