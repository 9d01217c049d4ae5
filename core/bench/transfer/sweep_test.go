package transfer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/measure"
	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

func TestPowers(t *testing.T) {
	assert.Equal(t, []uint64{4, 8, 16}, Powers(4, 16))
	assert.Equal(t, []uint64{3, 6, 7}, Powers(3, 7))
	assert.Equal(t, []uint64{5}, Powers(5, 5))
	assert.Equal(t, uint64(1<<64-1), Powers(1<<63, 1<<64-1)[1])
	assert.Len(t, Powers(4<<10, 64<<20), 15)
}

func TestLoadsOfAGrid(t *testing.T) {
	loads, err := Grid{[]transport.OpKind{transport.Read, transport.Write}, []uint64{4, 8}, []int{1}, []int{1, 2}}.Loads()
	require.NoError(t, err)
	assert.Equal(t, []Load{{1, 4, 1, 1}, {1, 4, 1, 2}, {1, 8, 1, 1}, {1, 8, 1, 2}, {2, 4, 1, 1}, {2, 4, 1, 2}, {2, 8, 1, 1}, {2, 8, 1, 2}}, loads)
	for _, g := range []Grid{
		{},
		{[]transport.OpKind{transport.Read}, make([]uint64, 100), make([]int, 100), []int{1}},
		{[]transport.OpKind{transport.Read}, []uint64{4}, []int{0}, []int{1}},
	} {
		_, err := g.Loads()
		assert.Equal(t, errs.InvalidParams, errs.CodeOf(err))
	}
}

func TestSweepMeasuresEveryLoad(t *testing.T) {
	s, _, _ := pair(t, 64<<10)
	loads, err := Grid{[]transport.OpKind{transport.Read, transport.Write}, []uint64{4 << 10, 32 << 10, 128 << 10}, []int{2}, []int{1}}.Loads()
	require.NoError(t, err)
	var seen []Row
	limits := 0
	rows, err := s.Sweep(t.Context(), loads, SweepOptions{
		Transport: "mem", Streams: 3, Rounds: 3, Round: time.Millisecond, WarmUp: time.Millisecond, Verify: true,
		Limit: func(context.Context, Load) (Limit, error) { limits++; return Limit{"half of it", 0.5}, nil },
		Each:  func(r Row) { seen = append(seen, r) },
	})
	require.NoError(t, err)
	assert.Equal(t, rows, seen)
	require.Len(t, rows, 6)
	assert.Equal(t, 4*3, limits, "after each round")
	for i, r := range rows {
		assert.Equal(t, loads[i], Load{map[string]transport.OpKind{"read": 1, "write": 2}[r.Operation], r.BlockSize, r.BatchSize, r.Threads})
		assert.Equal(t, "mem", r.Transport)
		assert.Equal(t, 3, r.Streams)
		if r.BlockSize == 128<<10 {
			assert.Contains(t, r.Skipped, "262144 bytes")
			assert.Zero(t, r.Batches)
			continue
		}
		assert.GreaterOrEqual(t, r.Batches, uint64(3), "a batch in every round")
		assert.Equal(t, r.Batches*2*r.BlockSize, r.Bytes)
		assert.Equal(t, &Content{Verified: 2}, r.Content)
		assert.Equal(t, &Limit{"half of it", 0.5}, r.Limit)
		assert.InDelta(t, r.GBps/0.5, r.OfLimit, 1e-9)
		assert.True(t, r.LeastGBps <= r.GBps && r.GBps <= r.MostGBps)
		assert.True(t, r.P50Us <= r.P90Us && r.P90Us <= r.P99Us && r.P99Us <= r.P999Us && r.P999Us <= r.MaxUs)
	}
}

func TestSweepEndsAtWrongContent(t *testing.T) {
	s, _, wire := pair(t, 64<<10)
	wire.SetHook(func(e memtransport.Event) memtransport.Fault {
		return memtransport.Fault{Corrupt: e.Kind == transport.Read}
	})
	loads := []Load{{transport.Read, 4096, 1, 1}, {transport.Read, 8192, 1, 1}}
	rows, err := s.Sweep(t.Context(), loads, SweepOptions{Rounds: 1, Round: time.Millisecond, Verify: true})
	require.ErrorContains(t, err, "1 of 1 blocks have wrong content")
	require.Len(t, rows, 1, "the wrong row is among the results")
	assert.Equal(t, uint64(1), rows[0].Content.Wrong)
}

func TestAFailingLimitEndsTheSweep(t *testing.T) {
	s, _, _ := pair(t, 64<<10)
	_, err := s.Sweep(t.Context(), []Load{{transport.Read, 4096, 1, 1}}, SweepOptions{
		Rounds: 1, Round: time.Millisecond, Limit: func(context.Context, Load) (Limit, error) { return Limit{}, errors.New("no such thing") },
	})
	require.ErrorContains(t, err, "measure the limit: no such thing")
}

func TestFiguresOfARow(t *testing.T) {
	h := measure.NewHistogram()
	for i := range 1000 {
		h.Record(time.Duration(i+1) * time.Microsecond)
	}
	r := Row{BlockSize: 1000, BatchSize: 4, Threads: 2}
	r.fill(Sample{Batches: 1000, Bytes: 4_000_000, Elapsed: 2 * time.Second, Busy: 4 * time.Second, Latency: h}, []float64{3, 1, 2})
	assert.Equal(t, []float64{2, 1, 3}, []float64{r.GBps, r.LeastGBps, r.MostGBps})
	assert.InDelta(t, 4000.0/4e6, r.BatchGBps, 1e-9, "4000 bytes in a mean of 4 ms")
	assert.InDelta(t, 500, r.RequestUs, 1e-9, "4000 requests in 2 s")
	assert.InDelta(t, 4000, r.MeanUs, 1e-9)
	for want, got := range map[float64]float64{500: r.P50Us, 900: r.P90Us, 990: r.P99Us, 999: r.P999Us, 1000: r.MaxUs} {
		assert.InEpsilon(t, want, got, 0.01)
	}
	assert.Equal(t, 1.5, median([]float64{2, 1}))
	assert.Zero(t, median(nil))
}

// example is a report with every field set in some row.
func example() Report {
	row := Row{
		Transport: "tcp", Streams: 4, Operation: "write", BlockSize: 65536, BatchSize: 16, Threads: 2,
		GBps: 4.194304, LeastGBps: 4.1, MostGBps: 4.25, BatchGBps: 2.097152, RequestUs: 15.625,
		MeanUs: 500, P50Us: 480.5, P90Us: 610, P99Us: 900.25, P999Us: 1500, MaxUs: 2100, Batches: 12000, Bytes: 12582912000, Seconds: 3,
		Content: &Content{Verified: 32}, Limit: &Limit{"iperf3 over loopback, 4 streams", 5}, OfLimit: 0.8388608,
	}
	wrong := Row{
		Transport: "local", Operation: "read", BlockSize: 4096, BatchSize: 1, Threads: 1, GBps: 10, LeastGBps: 9, MostGBps: 11,
		Content: &Content{Verified: 1, Wrong: 1, First: "read of block 0 of 4096 bytes: wrong from byte 7 on"},
	}
	return Report{
		Target: "10.0.0.1:15428", Rounds: 3, RoundSeconds: 1, WarmUpSeconds: 0.5, CheckConsistency: true, Interrupted: true,
		Results: []Row{row, wrong, {Transport: "rdma", Operation: "read", BlockSize: 1 << 30, BatchSize: 1, Threads: 1, Skipped: "too large"}},
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(string(want), string(got)))
}

func TestReportForms(t *testing.T) {
	var table, doc, line bytes.Buffer
	require.NoError(t, example().WriteTable(&table))
	golden(t, "table.golden", table.Bytes())
	require.NoError(t, example().WriteJSON(&doc))
	golden(t, "report.golden.json", doc.Bytes())
	require.NoError(t, example().Results[0].WriteLine(&line))
	var back Row
	require.NoError(t, json.Unmarshal(line.Bytes(), &back))
	assert.Equal(t, example().Results[0], back)
	assert.Equal(t, 1, bytes.Count(line.Bytes(), []byte("\n")))

	doc.Reset()
	require.NoError(t, Report{}.WriteJSON(&doc))
	assert.Contains(t, doc.String(), `"results": []`)
}
