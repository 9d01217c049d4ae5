package metrics

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/model"
)

func gather(t *testing.T, s *Set, g Gauges) map[string]*dto.MetricFamily {
	t.Helper()
	families, err := NewRegistry(s, func() Gauges { return g }).Gather()
	require.NoError(t, err)
	out := map[string]*dto.MetricFamily{}
	for _, f := range families {
		require.NotEmpty(t, f.GetHelp(), f.GetName())
		out[f.GetName()] = f
	}
	return out
}

// testdata/names.txt lists names and types as dashboards expect them, own.txt those that
// only this master has. Nothing else is there. Of the segments of another kind there are
// none, and so no series.
func TestEveryEstablishedNameIsThere(t *testing.T) {
	var s Set
	s.TenantRejects.Add(1, "t", RejectQuota)
	s.TenantEvictedBytes.Add(1, "t")
	s.RPC.Observe("PutStart", time.Millisecond)
	s.ForeignConnections.Add(1, "http")
	s.ConnectionsClosed.Add(1, "idle")
	got := gather(t, &s, Gauges{Segments: []SegmentGauge{{Name: "n:1"}}, Tenants: []model.TenantQuota{{Tenant: "t"}}})
	for _, file := range []string{"testdata/names.txt", "testdata/own.txt"} {
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		for line := range strings.Lines(string(want)) {
			name, kind, _ := strings.Cut(strings.TrimSpace(line), " ")
			f := got[name]
			delete(got, name)
			if strings.HasPrefix(name, "nof_segment_") {
				require.Nil(t, f, name)
			} else if f == nil {
				t.Errorf("%s is missing", name)
			} else if k := strings.ToLower(f.GetType().String()); k != kind {
				t.Errorf("%s is a %s, not a %s", name, k, kind)
			}
		}
	}
	require.Empty(t, slices.Collect(maps.Keys(got)), "nothing else")
}

func TestSeriesShowTheCounters(t *testing.T) {
	var s Set
	s.PutStart.Done(1, 1)
	s.PutStart.Done(1, 0)
	s.PutStart.Done(4, 0)
	s.PutStart.Done(4, 4)
	s.PutStart.Done(4, 1)
	for _, n := range []uint64{1, 4096, 4097, 1 << 20, 1 << 30} {
		s.ValueSizes.Observe(n)
	}
	got := gather(t, &s, Gauges{Used: 7, Capacity: 9, Keys: 3, Segments: []SegmentGauge{{Name: "a", Used: 1, Capacity: 2}, {Name: "b", Used: 6, Capacity: 7}}})
	for name, want := range map[string]float64{
		"master_put_start_requests_total": 2, "master_put_start_failures_total": 1,
		"master_batch_put_start_requests_total": 3, "master_batch_put_start_failures_total": 1, "master_batch_put_start_partial_successes_total": 1,
		"master_batch_put_start_items_total": 12, "master_batch_put_start_failed_items_total": 5,
		"master_allocated_bytes": 7, "master_total_capacity_bytes": 9, "master_key_count": 3,
	} {
		m := got[name].GetMetric()[0]
		require.Equal(t, want, m.GetCounter().GetValue()+m.GetGauge().GetValue(), name)
	}
	require.Len(t, got["segment_allocated_bytes"].GetMetric(), 2)
	h := got["master_value_size_bytes"].GetMetric()[0].GetHistogram()
	require.Equal(t, uint64(5), h.GetSampleCount())
	var below []uint64
	for _, b := range h.GetBucket() {
		below = append(below, b.GetCumulativeCount())
	}
	require.Equal(t, []uint64{2, 3, 3, 4, 4, 4, 4}, below)
}

func TestBytes(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.00 KB", 3342336: "3.19 MB", 64 << 20: "64.00 MB", 5 << 29: "2.50 GB", 3 << 40: "3.00 TB", 1<<64 - 1: "16.00 EB",
	} {
		require.Equal(t, want, Bytes(n))
	}
}

func TestSummaryLayout(t *testing.T) {
	idle, err := os.ReadFile("testdata/summary-idle.txt")
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		var s Set
		y := NewSummary(&s)
		require.Equal(t, strings.TrimSpace(string(idle)), y.Text(Gauges{}))

		s.PutStart.Done(1, 0)
		s.Get.Done(256, 6)
		for range 30 {
			s.Ping.Done(false)
		}
		s.EvictAttempts.Add(3)
		s.EvictSuccesses.Add(2)
		s.EvictedKeys.Add(40)
		s.EvictedBytes.AddBytes(40 << 20)
		s.Discarded.Add(2)
		s.Released.Add(1)
		time.Sleep(10 * time.Second)
		text := y.Text(Gauges{Used: 3342336, Capacity: 64 << 20, Keys: 51, Clients: 2, StagingBytes: 1 << 20})
		for _, part := range []string{
			"Mem Storage: 3.19 MB / 64.00 MB (5.0%) | ", " | Keys: 51 (soft-pinned: 0) | Clients: 2 | ",
			": PutStart=0.10/0.10, PutEnd=0.00/0.00,", " Ping=3.00/3.00,", " Get:(Req=0.00/0.10/0.10, Item=25.00/25.60), ",
			" | Eviction: Success/Attempts=2/3, AllocFail=0, PartialAlloc=0, keys=40, size=40.00 MB | Mem Eviction: Success/Attempts=2/3, keys=40, size=40.00 MB | ",
			" | Discard: Released/Total=1/2, StagingSize=1.00 MB | ",
		} {
			require.Contains(t, text, part)
		}
		require.Equal(t, shape(string(idle)), shape(text), "busy or idle, the layout is the same")

		y.Mark()
		time.Sleep(10 * time.Second)
		require.Contains(t, y.Text(Gauges{}), "Ping=0.00/0.00", "a new window")
		require.Contains(t, y.Text(Gauges{}), "keys=40", "evictions are totals")
	})
}

// shape replaces every figure.
func shape(s string) string {
	s = regexp.MustCompile(` \(\d+\.\d%\)`).ReplaceAllString(strings.TrimSpace(s), "")
	return regexp.MustCompile(`\d+(\.\d+)?( [KMGT]?B)?`).ReplaceAllString(s, "#")
}
