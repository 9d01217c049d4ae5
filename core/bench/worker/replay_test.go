package worker_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/bench/trace"
	"github.com/mooncake-go/mooncake/core/bench/worker"
	"github.com/mooncake-go/mooncake/core/bench/workload"
	"github.com/mooncake-go/mooncake/test/oracle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func config() worker.Config {
	return worker.Config{Model: "m", Seed: 3, PageSize: 72, Window: 4}
}

func run(t require.TestingT, cfg worker.Config, pool worker.Pool, src trace.Source) worker.Result {
	w, err := worker.New(cfg, pool)
	require.NoError(t, err)
	res, err := w.Run(context.Background(), src)
	require.NoError(t, err)
	require.Equal(t, res.Progress, w.Progress())
	return res
}

func requests(blocks ...[]uint64) trace.Source {
	var out []trace.Request
	for i, b := range blocks {
		out = append(out, trace.Request{Seq: i, Blocks: b})
	}
	return trace.FromSlice(out)
}

// equalToOracle compares everything that the two can both tell.
func equalToOracle(t require.TestingT, res worker.Result, pool *Pool, want oracle.Count) {
	require.EqualValues(t, want.Requests, res.Requests)
	require.EqualValues(t, want.Lookups, res.BlocksLooked)
	require.EqualValues(t, want.Hits, res.BlocksHit)
	require.EqualValues(t, want.Hits, res.PagesVerified)
	require.EqualValues(t, want.Inserts, res.PutsOK)
	require.EqualValues(t, want.Lookups-want.Hits-want.Inserts, res.PutsExisting)
	require.Equal(t, want.Evictions, pool.Evictions())
	require.Zero(t, res.PagesWrong+res.Lookup.Failures()+res.Get.Failures()+res.Put.Failures())
}

func TestHitsEqualTheOracle(t *testing.T) {
	cfg := workload.Default()
	cfg.Requests = 250
	for _, capacity := range []int{20, 200, 1000, 5000} {
		load, err := workload.New(cfg)
		require.NoError(t, err)
		want, err := oracle.Run(load, capacity, oracle.Rule{})
		require.NoError(t, err)
		load, err = workload.New(cfg)
		require.NoError(t, err)
		pool := NewPool(capacity)
		res := run(t, config(), pool, load)
		equalToOracle(t, res, pool, want)
		require.EqualValues(t, res.PutsOK*72, res.BytesPut)
		require.EqualValues(t, res.PagesVerified*72, res.BytesGet)
		require.EqualValues(t, res.Requests, res.Lookup.Latency.Count())
		t.Logf("%d blocks: hit ratio %.4f, %d evictions", capacity, want.HitRatio(), want.Evictions)
	}
}

// TestHitsEqualTheOracleOnAnything includes what no engine sends: repeated blocks, gaps,
// requests larger than the pool.
func TestHitsEqualTheOracleOnAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(0, 8).Draw(t, "capacity")
		blocks := rapid.SliceOfN(rapid.SliceOfN(rapid.Uint64Range(0, 11), 0, 10), 1, 20).Draw(t, "requests")
		cfg := config()
		cfg.Window = rapid.IntRange(1, 6).Draw(t, "window")
		pool := NewPool(capacity)
		res := run(t, cfg, pool, requests(blocks...))
		want, err := oracle.Run(requests(blocks...), capacity, oracle.Rule{})
		require.NoError(t, err)
		if capacity == 0 {
			require.EqualValues(t, want.Lookups, res.Put.Failed["NO_AVAILABLE_HANDLE"])
			return
		}
		equalToOracle(t, res, pool, want)
	})
}

func TestReplaysATrace(t *testing.T) {
	f, err := os.Open("../trace/testdata/sample.jsonl")
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	pool := NewPool(40)
	res := run(t, config(), pool, trace.NewReader(f))
	_, err = f.Seek(0, 0)
	require.NoError(t, err)
	want, err := oracle.Run(trace.NewReader(f), 40, oracle.Rule{})
	require.NoError(t, err)
	require.Positive(t, want.Evictions)
	equalToOracle(t, res, pool, want)
}

// TestWorkersShareAPool: with several workers the order is open, what is counted is not.
func TestWorkersShareAPool(t *testing.T) {
	cfg := workload.Default()
	cfg.Requests = 200
	pool := NewPool(500)
	results := make([]worker.Result, 3)
	var wg sync.WaitGroup
	for n := range results {
		load, err := workload.New(cfg)
		require.NoError(t, err)
		share, err := workload.Split(load, n, len(results))
		require.NoError(t, err)
		wg.Go(func() { results[n] = run(t, config(), pool, share) })
	}
	wg.Wait()
	var done uint64
	for _, r := range results {
		done += r.Requests
		require.Zero(t, r.PagesWrong)
		require.Zero(t, r.Put.Failures())
		require.Equal(t, r.BlocksLooked-r.BlocksHit, r.PutsOK+r.PutsExisting)
	}
	require.EqualValues(t, cfg.Requests, done)
}

// TestMemoryIsBounded replays a request that is far longer than window and lookup batch.
func TestMemoryIsBounded(t *testing.T) {
	blocks := make([]uint64, 1000)
	for i := range blocks {
		blocks[i] = uint64(i)
	}
	real := NewPool(2000)
	seen := map[*byte]bool{}
	longest := 0
	pool := &Faulty{
		Pool:        real,
		BeforeExist: func(_ context.Context, keys []string) error { longest = max(longest, len(keys)); return nil },
		AfterGet:    func(_ string, page []byte, err error) error { seen[&page[0]] = true; return err },
	}
	res := run(t, config(), pool, requests(blocks, blocks, blocks[:300]))
	require.EqualValues(t, 1300, res.BlocksHit)
	require.Equal(t, worker.LookupBatch, longest)
	require.Len(t, seen, 4, "reads go to the pages of the window only")
	now, most := real.Buffers()
	require.Equal(t, 4, most)
	require.Zero(t, now, "the buffer is given back")
}

func TestKeyNamesWhatTheBytesDependOn(t *testing.T) {
	require.Equal(t, "demo/llama/7/ff/1048576", worker.Key("llama", 7, 255, 1<<20))
	seen := map[string]bool{}
	for _, k := range []string{worker.Key("a", 1, 1, 8), worker.Key("b", 1, 1, 8), worker.Key("a", 2, 1, 8), worker.Key("a", 1, 2, 8), worker.Key("a", 1, 1, 9)} {
		require.False(t, seen[k])
		seen[k] = true
	}
}

func TestConfigRefusals(t *testing.T) {
	cases := map[string]func(*worker.Config){
		"worker":    func(c *worker.Config) { c.Worker = -1 },
		"requests":  func(c *worker.Config) { c.Total = -1 },
		"model":     func(c *worker.Config) { c.Model = "a/b" },
		"1 to 128":  func(c *worker.Config) { c.Model = strings.Repeat("x", 129) },
		"page size": func(c *worker.Config) { c.PageSize = 7 },
		"window":    func(c *worker.Config) { c.Window = -1 },
		"negative":  func(c *worker.Config) { c.Patience = -1 },
	}
	for want, spoil := range cases {
		cfg := config()
		spoil(&cfg)
		_, err := worker.New(cfg, NewPool(1))
		require.ErrorContains(t, err, want)
	}
}
