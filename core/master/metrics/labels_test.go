package metrics

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/model"
)

func TestLabelsThatAreNoText(t *testing.T) {
	var s Set
	s.TenantRejects.Add(2, "a\xff", RejectClosed)
	s.TenantEvictedBytes.Add(5, "a\xff")
	s.RPC.Observe("\xff", time.Second)
	got := gather(t, &s, Gauges{Segments: []SegmentGauge{{Name: "\xff", Weight: 0.5}, {Name: "\xfe"}}, Tenants: []model.TenantQuota{
		{Tenant: "\xff", Requested: 1<<64 - 1, Effective: 7, Charged: 9, OverQuota: true, ExplicitPolicy: true}, {Tenant: "b", Requested: 1<<64 - 1}},
	})
	m := got["mooncake_tenant_quota_reject_total"].GetMetric()[0]
	require.Equal(t, 2.0, m.GetCounter().GetValue())
	require.Equal(t, []string{RejectClosed, `"a\xff"`}, []string{m.GetLabel()[0].GetValue(), m.GetLabel()[1].GetValue()})
	require.Len(t, got["segment_weight"].GetMetric(), 2)
	require.Equal(t, 2*float64(1<<64-1), got["mooncake_tenant_quota_requested_bytes_sum"].GetMetric()[0].GetGauge().GetValue())
	over := map[float64]int{}
	for _, m := range got["mooncake_tenant_quota_over_quota"].GetMetric() {
		over[m.GetGauge().GetValue()]++
	}
	require.Equal(t, map[float64]int{0: 1, 1: 1}, over)
}

// TestLabelsAreBounded: names come from callers, and must not fill the memory.
func TestLabelsAreBounded(t *testing.T) {
	var s Set
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := range maxLabelled {
				s.TenantRejects.Add(1, fmt.Sprintf("t-%d-%d", w, i), RejectQuota)
				s.TenantEvictedBytes.Add(1, fmt.Sprintf("t-%d-%d", w, i))
				s.RPC.Observe(fmt.Sprintf("m-%d-%d", w, i), time.Second)
			}
		})
	}
	all.Wait()
	got := gather(t, &s, Gauges{})
	for _, c := range []struct {
		name   string
		labels []string
		most   int
	}{
		{"mooncake_tenant_quota_reject_total", []string{RejectQuota, other}, maxLabelled + 1},
		{"mooncake_tenant_evict_bytes_total", []string{other}, maxLabelled + 1},
		{"master_rpc_latency_seconds", []string{other}, maxMethods + 1},
	} {
		total, others := uint64(0), uint64(0)
		for _, m := range got[c.name].GetMetric() {
			n := uint64(m.GetCounter().GetValue()) + m.GetHistogram().GetSampleCount()
			total += n
			var values []string
			for _, l := range m.GetLabel() {
				values = append(values, l.GetValue())
			}
			if strings.Join(values, " ") == strings.Join(c.labels, " ") {
				others = n
			}
		}
		require.Equal(t, uint64(4*maxLabelled), total, "none is lost")
		require.Len(t, got[c.name].GetMetric(), c.most)
		require.Equal(t, uint64(4*maxLabelled-c.most+1), others)
	}
}

func TestDurations(t *testing.T) {
	var s Set
	for _, d := range []time.Duration{-1, 0, 50 * time.Microsecond, 51 * time.Microsecond, time.Second, 2 * time.Hour} {
		s.PutTimes.Observe(d)
		s.EvictedAges.Observe(d)
	}
	got := gather(t, &s, Gauges{})
	h := got["master_put_duration_seconds"].GetMetric()[0].GetHistogram()
	require.Equal(t, uint64(6), h.GetSampleCount())
	require.InDelta(t, 7201.0001, h.GetSampleSum(), 1e-3)
	require.Equal(t, 0.00005, h.GetBucket()[0].GetUpperBound())
	require.Equal(t, uint64(3), h.GetBucket()[0].GetCumulativeCount())
	require.Equal(t, 60.0, h.GetBucket()[len(durationBounds)-1].GetUpperBound())
	require.Equal(t, uint64(5), h.GetBucket()[len(durationBounds)-1].GetCumulativeCount())
	ages := got["master_evicted_age_seconds"].GetMetric()[0].GetHistogram().GetBucket()
	require.Equal(t, uint64(6), ages[len(ages)-1].GetCumulativeCount())
	require.Equal(t, 86400.0, ages[len(ages)-1].GetUpperBound())
}

func TestBoundsFitAndRise(t *testing.T) {
	for _, bounds := range [][]uint64{sizeBounds, durationBounds, ageBounds} {
		require.LessOrEqual(t, len(bounds), maxBounds)
		for i := 1; i < len(bounds); i++ {
			require.Less(t, bounds[i-1], bounds[i])
		}
	}
}

func TestCopiesAndTasksInTheSummary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Set
		y := NewSummary(&s)
		for kind, times := range map[model.CopyKind]int{model.CopyObject: 10, model.MoveObject: 20} {
			for range times {
				s.Transfer(kind).Start.Done(false)
				s.Transfer(kind).End.Done(kind == model.MoveObject)
				s.CreateTask(kind).Done(false)
			}
		}
		s.QueryHosts.Done(30, 10)
		s.ClearReplicas.Done(10, 0)
		s.CompleteTask.Done(true)
		time.Sleep(10 * time.Second)
		text := y.Text(Gauges{Keys: 4, SoftPinned: 3})
		for _, part := range []string{
			"Keys: 4 (soft-pinned: 3)", "CopyStart=1.00/1.00, CopyEnd=1.00/1.00, CopyRevoke=0.00/0.00, MoveStart=2.00/2.00, MoveEnd=0.00/2.00,",
			"QueryIp:(Req=0.00/0.10/0.10, Item=2.00/3.00), Clear:(Req=0.10/0.00/0.10, Item=1.00/1.00), CreateMoveTask:(Req=2.00/2.00), " +
				"CreateCopyTask:(Req=1.00/1.00), QueryTask:(Req=0.00/0.00), FetchTasks:(Req=0.00/0.00), MarkTaskToComplete:(Req=0.00/0.10) | ",
		} {
			require.Contains(t, text, part)
		}
	})
}

// testdata/log-line.txt was recorded; only the figures may differ.
func TestLogLineLayout(t *testing.T) {
	recorded, err := os.ReadFile("testdata/log-line.txt")
	require.NoError(t, err)
	var s Set
	line := Serving().LogLine(NewSummary(&s).Text(Gauges{Capacity: 64 << 20, Clients: 1}))
	require.Equal(t, shape(string(recorded)), shape(line))
	standby := Status{Role: "standby", State: "catching_up", Leader: "10.0.0.1:50051", View: 7}
	require.True(t, strings.HasPrefix(standby.Line("x"), "role=standby, state=catching_up, service_ready=false, master={x}, ha={HA "))
	require.True(t, strings.HasSuffix(standby.Line("x"), "state=0}, leader=10.0.0.1:50051, view_version=7"))
}
