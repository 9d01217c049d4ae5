package report

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/core/bench/measure"
	"github.com/mooncake-go/mooncake/core/bench/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func op(busy time.Duration, failed map[string]uint64, each ...time.Duration) worker.Op {
	h := measure.NewHistogram()
	for _, d := range each {
		h.Record(d)
	}
	return worker.Op{Busy: busy, Failed: failed, Latency: h}
}

// two is made so that every figure can be worked out in the head.
func two() []worker.Result {
	a := worker.Result{
		Worker:   0,
		Progress: worker.Progress{Requests: 3, BlocksLooked: 60, BlocksHit: 30, PagesVerified: 30, BytesPut: 4e9, BytesGet: 6e9},
		Lookup:   op(time.Second, nil, time.Millisecond, time.Millisecond),
		Get:      op(2*time.Second, map[string]uint64{"OBJECT_NOT_FOUND": 2}, 2*time.Millisecond),
		Put:      op(1*time.Second, map[string]uint64{"NO_AVAILABLE_HANDLE": 1}, 3*time.Millisecond),
		PutsOK:   27, PutsExisting: 2, Filling: time.Second, Verifying: time.Second,
	}
	b := worker.Result{
		Worker:   1,
		Progress: worker.Progress{Requests: 1, BlocksLooked: 40, BlocksHit: 10, PagesVerified: 10, PagesWrong: 1, BytesPut: 2e9, BytesGet: 3e9},
		Lookup:   op(time.Second, map[string]uint64{"RPC_FAIL": 5}, 100*time.Millisecond),
		Get:      op(4*time.Second, map[string]uint64{"OBJECT_NOT_FOUND": 1}, 40*time.Millisecond),
		Put:      op(2*time.Second, nil, 50*time.Millisecond),
		PutsOK:   29, Filling: time.Second, Wrong: []string{"block 0x3 is wrong from byte 7 of 72 on"},
	}
	return []worker.Result{b, a}
}

var facts = Facts{Evictions: 12, PageSize: 1 << 20, PoolBytes: 3 << 29, WorkingSetBytes: 3 << 30, Elapsed: 12500 * time.Millisecond, ChecksumGBps: 20}

func TestBuild(t *testing.T) {
	r := Build(two(), facts)
	require.EqualValues(t, 4, r.Requests)
	require.EqualValues(t, 40, r.PagesVerified)
	require.EqualValues(t, 1, r.PagesWrong)
	require.InDelta(t, 0.4, r.HitRatioBlocks, 1e-12)
	require.InDelta(t, 6.0/3*2, r.PutGBps, 1e-9, "6 GB in a mean of 1.5 s")
	require.InDelta(t, 9.0/6*2, r.GetGBps, 1e-9, "9 GB in a mean of 3 s")
	require.InEpsilon(t, 1000, r.LookupP50us, 0.01)
	require.InEpsilon(t, 100e3, r.LookupP99us, 0.01)
	require.InEpsilon(t, 2000, r.GetP50us, 0.01)
	require.InEpsilon(t, 50e3, r.PutP99us, 0.01)
	require.EqualValues(t, 1, r.PutsFailed)
	require.EqualValues(t, 3, r.GetsFailed)
	require.EqualValues(t, 5, r.LookupsFailed)
	require.Equal(t, map[string]uint64{"OBJECT_NOT_FOUND": 3, "NO_AVAILABLE_HANDLE": 1, "RPC_FAIL": 5}, r.Failures)
	require.InDelta(t, 3, r.ContentSeconds, 1e-9)
	require.InDelta(t, 15.0/20/9, r.ChecksumShare, 1e-9)
	require.Len(t, r.Wrong, 1)
	require.ErrorContains(t, r.Check(), "40 pages were verified and 1 were wrong")
	r.PagesWrong = 0
	require.NoError(t, r.Check())
	require.Error(t, Report{}.Check(), "a run that read nothing shows nothing")
}

// TestTiers: hits are counted by tier, and a run without one from a tier shows nothing.
func TestTiers(t *testing.T) {
	require.Nil(t, Build(two(), facts).Tiers)
	tiered := facts
	tiered.Tiered, tiered.EvictedUnsaved = true, 2
	results := two()
	results[0].TierHits, results[1].TierHits = 4, 9
	r := Build(results, tiered)
	require.Equal(t, &Tiers{MemoryHits: 28, TierHits: 13, EvictedUnsaved: 2}, r.Tiers)
	text, err := json.Marshal(r)
	require.NoError(t, err)
	require.Contains(t, string(text), `"memory_hits":28,"tier_hits":13,"evicted_unsaved":2`)
	var b bytes.Buffer
	r.Text(&b)
	require.Contains(t, b.String(), "28 in memory, 13 on a storage tier\n")

	r.PagesWrong = 0
	require.NoError(t, r.Check())
	r.TierHits = 0
	require.ErrorContains(t, r.Check(), "none from a storage tier")
}

// TestKeys holds the JSON to the keys that scripts rely on.
func TestKeys(t *testing.T) {
	text, err := json.Marshal(Build(nil, Facts{}))
	require.NoError(t, err)
	var got map[string]any
	require.NoError(t, json.Unmarshal(text, &got))
	for _, k := range []string{
		"pages_verified", "pages_wrong", "hit_ratio_blocks", "put_gbps", "get_gbps", "lookup_p50_us", "lookup_p99_us", "get_p50_us",
		"get_p99_us", "put_p50_us", "put_p99_us", "evictions", "bytes_put", "bytes_get", "requests", "workers", "page_size", "pool_bytes",
		"working_set_bytes", "seconds", "puts_failed", "gets_failed",
	} {
		require.Contains(t, got, k)
	}
}

func TestTable(t *testing.T) {
	var b bytes.Buffer
	Build(two(), facts).Text(&b)
	golden := filepath.Join("testdata", "table.golden")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(golden, b.Bytes(), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(string(want), b.String()))
}

func TestBytes(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB", 1<<20 - 1: "1 MiB", 1 << 20: "1 MiB", 5 << 29: "2.5 GiB", 1<<64 - 1: "16 EiB",
	} {
		require.Equal(t, want, Bytes(n))
	}
}
