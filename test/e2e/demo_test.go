package e2e

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/report"
	"github.com/mooncake-go/mooncake/core/bench/trace"
	"github.com/mooncake-go/mooncake/core/bench/workload"
	core "github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/test/internal/programs"
	"github.com/mooncake-go/mooncake/test/oracle"
)

// The demo of these tests has small pages, which are quick, a pool well below the working set, and
// a window that holds the longest request, so that a request is one put.
const (
	pageSize = 256 << 10
	pages    = 768
	window   = 64
	requests = 400
	// A lease outlives the longest read on a busy machine. Workers pause between requests, so that
	// few requests fit into a lease even on a quick machine: leased objects cannot be evicted, and
	// with half of the pool leased, its hits would not compare with those of a pool without leases.
	lease = "150ms"
	think = "12ms"
)

func demoArgs(extra ...string) []string {
	return append([]string{
		"demo", "-o", "json", "--page-size", fmt.Sprint(pageSize), "--pool-size", fmt.Sprint(pages * pageSize),
		"--window", fmt.Sprint(window), "--lease-ttl", lease, "--think-time", think, "--requests", fmt.Sprint(requests), "--evictor", "lru",
	}, extra...)
}

// tightPages is a pool so small that it loses the first page of prompts that are still in
// use, so that the order of every read, refused put and insert shows in the hits.
const tightPages = 600

func tight(extra ...string) []string {
	// A read that outlives its lease is repeated, which is one more use of its pages: where the count is exact, a machine may
	// stand still for longer than in the other tests.
	return append([]string{"--workers", "1", "--pool-size", fmt.Sprint(tightPages * pageSize), "--lease-ttl", "450ms", "--think-time", "36ms"}, extra...)
}

func runDemo(t *testing.T, extra ...string) report.Report {
	t.Helper()
	r := mooncake(t, demoArgs(extra...)...)
	require.Equal(t, 0, r.Code, "%s\n%s", r.Stderr, r.Stdout)
	rep := decode[report.Report](t, r.Stdout)
	assert.Zero(t, rep.PagesWrong)
	assert.Positive(t, rep.PagesVerified)
	return rep
}

// expected returns the hits of a textbook LRU pool of so many pages on the demo's sequence, by the
// rule that the demo's client follows.
func expected(t *testing.T, pages int) oracle.Count {
	t.Helper()
	// The client puts the rest of a request in one call, and a refused put is a use of the page.
	return count(t, pages, oracle.Rule{PutTouches: true, PutBatch: window})
}

func count(t *testing.T, pages int, rule oracle.Rule) oracle.Count {
	t.Helper()
	load := workload.Default()
	load.Requests = requests
	src, err := workload.New(load)
	require.NoError(t, err)
	want, err := oracle.Run(src, pages, rule)
	require.NoError(t, err)
	require.Positive(t, want.Evictions, "the pool must be too small for the load")
	return want
}

func TestOneWorkerHitsWhatAnLRUPoolHits(t *testing.T) {
	want := expected(t, tightPages)
	require.NotEqual(t, want.Hits, count(t, tightPages, oracle.Rule{PutBatch: window}).Hits,
		"the load must be one where it shows that a refused put is a use")
	rep := runDemo(t, tight()...)
	assert.Nil(t, rep.Tiers)
	assert.EqualValues(t, want.Lookups, rep.BlocksLooked)
	assert.EqualValues(t, want.Hits, rep.BlocksHit, "failures: %v", rep.Failures)
	assert.EqualValues(t, want.Evictions, rep.Evictions)
	assert.InDelta(t, want.HitRatio(), rep.HitRatioBlocks, 1e-9)
}

// TestTiersKeepEveryPage: what memory loses is read from the storage tiers, so that a page is a miss once only, whatever the
// speed of the disk.
func TestTiersKeepEveryPage(t *testing.T) {
	load := workload.Default()
	load.Requests = requests / 2
	src, err := workload.New(load)
	require.NoError(t, err)
	want, err := workload.Summarize(src)
	require.NoError(t, err)

	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	args := []string{"--tiers", "--workers", "1", "--pool-size", fmt.Sprint(tightPages * 2 / 3 * pageSize), "--requests", fmt.Sprint(load.Requests)}
	rep := runDemo(t, args...)
	require.NotNil(t, rep.Tiers)
	assert.EqualValues(t, want.Distinct, rep.BlocksLooked-rep.BlocksHit, "failures: %v", rep.Failures)
	assert.Equal(t, rep.BlocksHit, rep.MemoryHits+rep.TierHits)
	assert.Positive(t, rep.MemoryHits)
	assert.Positive(t, rep.TierHits)
	assert.Zero(t, rep.EvictedUnsaved)
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	assert.Empty(t, left, "the demo removes what it wrote")

	r := mooncake(t, demoArgs(append(args, "--requests", "20")...)...)
	assert.Equal(t, 2, r.Code)
	assert.Contains(t, r.Stderr, "use more requests or a smaller pool")
}

// spread returns the fewest and the most hits of a textbook LRU pool on the requests of two
// workers. The machine decides their order: one worker may start later than the other, or stop for
// a moment, and then it stays behind.
func spread(t *testing.T, pages int) (least, most float64) {
	t.Helper()
	var shares [2][]trace.Request
	for i := range shares {
		load := workload.Default()
		load.Requests = requests
		src, err := workload.New(load)
		require.NoError(t, err)
		share, err := workload.Split(src, i, len(shares))
		require.NoError(t, err)
		for {
			r, err := share.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			shares[i] = append(shares[i], r)
		}
	}
	least, most = 1, 0
	for behind := 0; behind <= 120; behind += 20 {
		for from := 0; from <= 150; from += 50 {
			for late := range shares {
				order := inTurn(shares, late, from, behind)
				require.Len(t, order, requests)
				got, err := oracle.Run(trace.FromSlice(order), pages, oracle.Rule{PutTouches: true, PutBatch: window})
				require.NoError(t, err)
				least, most = min(least, got.HitRatio()), max(most, got.HitRatio())
			}
		}
	}
	return least, most
}

// inTurn takes the requests of both workers in turn. From one of its requests on, one worker stays
// a number of requests behind the other.
func inTurn(shares [2][]trace.Request, late, from, behind int) (order []trace.Request) {
	other := 1 - late
	var next [2]int
	for next[late] < len(shares[late]) || next[other] < len(shares[other]) {
		ahead := next[late]
		if next[late] >= from {
			ahead += behind
		}
		w := late
		if next[late] == len(shares[late]) || next[other] < len(shares[other]) && next[other] <= ahead {
			w = other
		}
		order = append(order, shares[w][next[w]])
		next[w]++
	}
	return order
}

func TestTwoWorkersStayWithinTwoPoints(t *testing.T) {
	programs.Long(t)
	least, most := spread(t, pages)
	require.Less(t, most-least, 0.08, "else this says little")
	rep := runDemo(t, "--workers", "2")
	assert.Greater(t, rep.HitRatioBlocks, least-0.02)
	assert.Less(t, rep.HitRatioBlocks, most+0.02)
	t.Logf("%.4f, a pool without leases has %.4f to %.4f", rep.HitRatioBlocks, least, most)
}

// The default policy knows which page precedes which. On a load of conversations it has about as
// many hits as LRU, in process and in a subprocess.
func TestDefaultPolicy(t *testing.T) {
	programs.Long(t)
	want := expected(t, tightPages).HitRatio()
	for _, mode := range []string{"inprocess", "subprocess"} {
		rep := runDemo(t, tight("--evictor", "prefix", "--plugin-mode", mode, "--plugin-dir", bin)...)
		assert.Greater(t, rep.HitRatioBlocks, want-0.03, mode)
		assert.Positive(t, rep.Evictions, mode)
	}
}

func TestPluginsAsSubprocessesChangeNothing(t *testing.T) {
	programs.Long(t)
	rep := runDemo(t, tight("--plugin-mode", "subprocess", "--plugin-dir", bin)...)
	assert.EqualValues(t, expected(t, tightPages).Hits, rep.BlocksHit, "failures: %v", rep.Failures)
}

// transports returns what the report says about a transport in every process that uses it.
func transports(t *testing.T, rep report.Report, name string) (out []report.Plugin) {
	t.Helper()
	for _, p := range rep.Plugins {
		if p.Kind == "transport" && p.Name == name {
			out = append(out, p)
		}
	}
	require.Len(t, out, 3+rep.Workers, "stores and workers")
	return out
}

// TestTransportsAsSubprocessesChangeNothing checks that every byte moves through the transports'
// own processes, that none is copied on the way, and that the policy sees the same accesses.
func TestTransportsAsSubprocessesChangeNothing(t *testing.T) {
	programs.Long(t)
	rep := runDemo(t, tight("--transport", "tcp", "--transport-mode", "subprocess", "--plugin-mode", "subprocess", "--plugin-dir", bin)...)
	assert.EqualValues(t, expected(t, tightPages).Hits, rep.BlocksHit, "failures: %v", rep.Failures)
	for _, p := range transports(t, rep, "tcp") {
		assert.NotEqual(t, core.HomeBuiltin, p.Home, p.Where)
		assert.Equal(t, "0", p.Figures["bytes_copied"], p.Where)
		assert.Equal(t, "mapped", p.Figures["memory"], p.Where)
		assert.Equal(t, plugin.StateOK, p.State, p.Where)
	}
}

// TestKilledTransportComesBack kills the transport of a store, then that of a worker, in the middle
// of the load.
func TestKilledTransportComesBack(t *testing.T) {
	for kill, where := range map[string]string{"transport": "store-1", "worker-transport": "worker-1"} {
		t.Run(kill, func(t *testing.T) {
			rep := runDemo(t, "--transport-mode", "subprocess", "--plugin-dir", bin, "--kill", kill+"@0.3")
			assert.EqualValues(t, requests, rep.Requests, "both workers finish")
			for _, p := range transports(t, rep, "tcp") {
				if p.Where == where {
					assert.Positive(t, p.Restarts)
				}
			}
		})
	}
	r := mooncake(t, demoArgs("--kill", "transport")...)
	assert.Equal(t, 2, r.Code, "it is linked in")
	assert.Contains(t, r.Stderr, "--transport-mode subprocess")
	r = mooncake(t, demoArgs("--transport", "nosuch", "--plugin-dir", bin)...)
	assert.Equal(t, 1, r.Code)
	assert.Contains(t, r.Stderr, "mooncake-plugin-transport-nosuch")
}

func TestKilledStoreIsAMissNotAnError(t *testing.T) {
	rep := runDemo(t, "--kill", "store@0.3")
	assert.EqualValues(t, requests, rep.Requests, "both workers finish")
	assert.Less(t, rep.HitRatioBlocks, expected(t, pages).HitRatio(), "what the store held is lost")
}

func TestKilledMasterComesBack(t *testing.T) {
	rep := runDemo(t, "--kill", "master@0.3")
	assert.EqualValues(t, requests, rep.Requests, "both workers finish")
	assert.Positive(t, rep.HitRatioBlocks)
}

// TestKilledPluginIsRefilled kills the process of a plugin in the middle of the load. The master
// restarts it and replays its state. Puts during the gap fail, and nothing else does.
func TestKilledPluginIsRefilled(t *testing.T) {
	for _, kind := range []string{"evict", "alloc"} {
		t.Run(kind, func(t *testing.T) {
			// Paced so that few requests come before a process is there again, also where it
			// takes a second to start.
			rep := runDemo(t, "--workers", "1", "--think-time", "30ms", "--plugin-mode", "subprocess", "--plugin-dir", bin, "--kill", kind+"@0.3")
			assert.EqualValues(t, requests, rep.Requests)
			assert.Less(t, math.Abs(expected(t, pages).HitRatio()-rep.HitRatioBlocks), 0.05)
		})
	}
}

// TestDamagedMemoryIsNeverServed changes a store's memory behind its back. With checksums the
// result is a miss with a code of its own; without them, the demo finds the damage and fails.
func TestDamagedMemoryIsNeverServed(t *testing.T) {
	rep := runDemo(t, "--corrupt", "0.3")
	assert.EqualValues(t, requests, rep.Requests)
	assert.Positive(t, rep.Failures["CHECKSUM_MISMATCH"])

	r := mooncake(t, demoArgs("--corrupt", "0.3", "--checksum=false")...)
	assert.Equal(t, 1, r.Code, r.Stderr)
	rep = decode[report.Report](t, r.Stdout)
	assert.Positive(t, rep.PagesWrong)
	assert.NotEmpty(t, rep.Wrong)
}

// TestDemoOverQUIC runs the demo with an authority and certificates of its own, and without any
// other transport that could have moved the pages instead.
func TestDemoOverQUIC(t *testing.T) {
	const asked = 60
	rep := runDemo(t, "--transport", "quic", "--requests", fmt.Sprint(asked), "--page-size", "65536", "--pool-size", "8388608", "--think-time", "0")
	assert.EqualValues(t, asked, rep.Requests)
	assert.Positive(t, rep.BytesPut)
	assert.Positive(t, rep.BytesGet)
	for _, p := range transports(t, rep, "quic") {
		assert.Equal(t, plugin.StateOK, p.State, "%s: %s", p.Where, p.Reason)
	}
	for _, p := range rep.Plugins {
		assert.False(t, p.Kind == "transport" && p.Name != "quic", "%s has %s too", p.Where, p.Name)
	}
}
