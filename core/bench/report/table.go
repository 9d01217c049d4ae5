package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Text prints the report for people.
func (r Report) Text(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t"+format+"\n", append([]any{name}, args...)...)
	}
	row("requests", "%d by %d %s in %.1f s", r.Requests, r.Workers, plural(r.Workers, "worker"), r.Seconds)
	row("pool", "%s for a working set of %s, pages of %s", Bytes(r.PoolBytes), Bytes(r.WorkingSetBytes), Bytes(r.PageSize))
	row("hit ratio by blocks", "%.4f (%d of %d)", r.HitRatioBlocks, r.BlocksHit, r.BlocksLooked)
	if r.Tiers != nil {
		row("hits by tier", "%d in memory, %d on a storage tier", r.MemoryHits, r.TierHits)
		row("evicted unsaved", "%d", r.EvictedUnsaved)
	}
	row("evictions", "%d", r.Evictions)
	row("put", "%s at %.2f GB/s", Bytes(r.BytesPut), r.PutGBps)
	row("get", "%s at %.2f GB/s", Bytes(r.BytesGet), r.GetGBps)
	row("lookup latency", "p50 %s, p99 %s", micros(r.LookupP50us), micros(r.LookupP99us))
	row("get latency, a batch", "p50 %s, p99 %s", micros(r.GetP50us), micros(r.GetP99us))
	row("put latency, a batch", "p50 %s, p99 %s", micros(r.PutP50us), micros(r.PutP99us))
	if r.ChecksumGBps > 0 {
		row("checksum", "%.1f GB/s on one core, %.1f %% of the time in put and get", r.ChecksumGBps, 100*r.ChecksumShare)
	}
	if len(r.Failures) > 0 {
		row("failed", "%d puts, %d gets, %d lookups: %s", r.PutsFailed, r.GetsFailed, r.LookupsFailed, r.failures())
	}
	r.pluginRows(row)
	row("verified pages", "%d", r.PagesVerified)
	row("wrong pages", "%d", r.PagesWrong)
	for _, detail := range r.Wrong {
		row("", "%s", detail)
	}
	t.Flush()
}

func (r Report) failures() string {
	var parts []string
	for _, code := range slices.Sorted(maps.Keys(r.Failures)) {
		parts = append(parts, fmt.Sprintf("%s %d", code, r.Failures[code]))
	}
	return strings.Join(parts, ", ")
}

func plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

// Bytes formats a size in binary units: 1.5 GiB.
func Bytes(n uint64) string {
	const units = "KMGTPE"
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n)/1024, 0
	for v >= 1023.95 && unit < len(units)-1 {
		v /= 1024
		unit++
	}
	return strings.Replace(fmt.Sprintf("%.1f %ciB", v, units[unit]), ".0 ", " ", 1)
}

// micros formats microseconds with three digits that matter.
func micros(us float64) string {
	d := time.Duration(us * float64(time.Microsecond))
	switch {
	case d < 10*time.Microsecond:
		return d.String()
	case d < 10*time.Millisecond:
		return d.Round(time.Microsecond).String()
	default:
		return d.Round(100 * time.Microsecond).String()
	}
}
