package bench_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/cli"
	"github.com/mooncake-go/mooncake/cmd/mooncake/cli/bench"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/clitest"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
)

const smallTrace = "../../../../core/bench/evictsim/testdata/small.jsonl"

// evictRow is the contract of -o json.
type evictRow struct {
	Policy   string  `json:"policy"`
	Capacity int     `json:"capacity"`
	Block    float64 `json:"block_hit_ratio"`
	Prefix   float64 `json:"prefix_hit_ratio"`
	Default  bool    `json:"default"`
	// With --tiers only, and all but the first not for the optimum.
	TierRatio  string  `json:"tier_ratio"`
	MemoryHits int     `json:"memory_hits"`
	TierHits   int     `json:"tier_hits"`
	Promotions int     `json:"promotions"`
	TierWrites float64 `json:"tier_writes_per_insert"`
}

func benchEvict(t *testing.T, args ...string) []evictRow {
	t.Helper()
	e, stdout, stderr := clitest.New()
	require.Equal(t, command.ExitOK, cli.Run(e, append([]string{"mooncake", "bench", "evict", "-o", "json"}, args...)), stderr.String())
	require.Empty(t, stderr.String(), "progress is for terminals")
	dec := json.NewDecoder(stdout)
	dec.DisallowUnknownFields()
	var rows []evictRow
	require.NoError(t, dec.Decode(&rows))
	return rows
}

func TestBenchEvictComparesAll(t *testing.T) {
	e, _, _ := clitest.New()
	names := bench.PolicyNames(e)
	require.Subset(t, names, []string{"prefix", "lru", "s3fifo", "sieve", "optimum"})
	rows := benchEvict(t, "--trace", smallTrace, "--capacity", "20,100")
	require.Len(t, rows, 2*len(names))
	defaults := map[string]bool{}
	for i, r := range rows {
		assert.Equal(t, names[i/2], r.Policy)
		assert.Equal(t, []int{20, 100}[i%2], r.Capacity)
		best := rows[len(rows)-2+i%2]
		assert.Equal(t, "optimum", best.Policy)
		assert.LessOrEqual(t, r.Block, best.Block)
		assert.LessOrEqual(t, r.Prefix, r.Block)
		assert.Positive(t, r.Prefix)
		if r.Default {
			defaults[r.Policy] = true
		}
	}
	assert.Len(t, defaults, 1, "one policy is the default")
	assert.NotContains(t, defaults, "optimum")
}

func TestBenchEvictTiers(t *testing.T) {
	args := []string{"--trace", smallTrace, "--capacity", "20", "--policy", "lru,optimum"}
	alone := benchEvict(t, args...)
	rows := benchEvict(t, append(args, "--tiers", "2:3")...)
	require.Len(t, rows, 2)
	for i, r := range rows {
		assert.Equal(t, "2:3", r.TierRatio)
		assert.Greater(t, r.Prefix, alone[i].Prefix)
		assert.Empty(t, alone[i].TierRatio)
	}
	lru := rows[0]
	assert.InDelta(t, lru.Prefix, float64(lru.MemoryHits+lru.TierHits)/1611, 1e-9, "of the blocks of the trace")
	assert.InDelta(t, 1, lru.TierWrites, 1e-9)
	assert.Less(t, lru.Promotions, lru.TierHits)
	first := benchEvict(t, append(args, "--tiers", "2:3", "--tier_promotion", "1")...)[0]
	assert.Greater(t, first.Promotions, lru.Promotions)
	other := benchEvict(t, append(args, "--tiers", "2:3", "--tier_evictor", "lru")...)[0]
	assert.NotEqual(t, lru.Prefix, other.Prefix)
}

func TestBenchEvictText(t *testing.T) {
	e, stdout, stderr := clitest.New()
	require.Equal(t, command.ExitOK, cli.Run(e, []string{"mooncake", "bench", "evict", "--trace", smallTrace, "--capacity", "20", "--policy", "optimum,lru"}), stderr.String())
	assert.Contains(t, stdout.String(), "120 requests, ")
	for _, line := range []string{"optimum  *100.0 %", "lru .*0.0 %", "prefix hit ratio", "gap closed"} {
		assert.Regexp(t, line, stdout.String())
	}
	assert.NotContains(t, stdout.String(), "sieve")
}

func TestBenchEvictRefuses(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.jsonl")
	require.NoError(t, os.WriteFile(bad, []byte(`{"timestamp":1,"hash_ids":[1]}`+"\n"+`{"hash_ids":[1]}`+"\n"), 0o600))
	empty := filepath.Join(t.TempDir(), "empty.jsonl")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for _, c := range []struct{ args, want string }{
		{"", "--trace is missing"},
		{"--trace /nonexistent.jsonl", "no such file"},
		{"--trace " + bad, "trace line 2: a required key is missing: timestamp"},
		{"--trace " + empty, "it has no blocks"},
		{"--trace " + smallTrace + " --capacity 0", "--capacity has 0 blocks, want 1 to"},
		{"--trace " + smallTrace + " --capacity -5", "--capacity has -5 blocks"},
		{"--trace " + smallTrace + " --capacity 5,7,5", "--capacity has 5 twice"},
		{"--trace " + smallTrace + " --capacity=", `invalid argument "" for "--capacity"`},
		{"--trace " + smallTrace + " --capacity many", "many"},
		{"--trace " + smallTrace + " --policy lfu", `there is no policy "lfu"; there are all, prefix, lru, s3fifo, sieve`},
		{"--trace " + smallTrace + " --policy all,lru", `there is no policy "all"`},
		{"--trace " + smallTrace + " --policy lru,lru", `--policy has "lru" twice`},
		{"--trace " + smallTrace + " --policy=", "--policy names none"},
		{"--trace " + smallTrace + " --tiers 10", `--tiers is "10", want two numbers from 1 to 1048576, such as 1:10`},
		{"--trace " + smallTrace + " --tiers=", `--tiers is ""`},
		{"--trace " + smallTrace + " --tiers 0:10", `--tiers is "0:10"`},
		{"--trace " + smallTrace + " --tiers 1:-1", `--tiers is "1:-1"`},
		{"--trace " + smallTrace + " --tiers 1:2:3", `--tiers is "1:2:3"`},
		{"--trace " + smallTrace + " --tiers 1:2000000", `--tiers is "1:2000000"`},
		{"--trace " + smallTrace + " --tiers 1:10 --tier_evictor optimum", `there is no policy "optimum"; there are prefix, lru, s3fifo, sieve`},
		{"--trace " + smallTrace + " --tiers 1:10 --tier_promotion 0", "--tier_promotion is 0, want at least 1"},
		{"--trace " + smallTrace + " --tier_promotion 1", "--tier_promotion needs --tiers"},
		{"--trace " + smallTrace + " --tier_evictor lru", "--tier_evictor needs --tiers"},
		{"--trace " + smallTrace + " -o yaml", "yaml"},
		{"--trace " + smallTrace + " more", "takes no arguments"},
	} {
		e, stdout, stderr := clitest.New()
		code := cli.Run(e, append([]string{"mooncake", "bench", "evict"}, strings.Fields(c.args)...))
		assert.Equal(t, command.ExitUsage, code, c.args)
		assert.Contains(t, stderr.String(), c.want, c.args)
		assert.Empty(t, stdout.String(), c.args)
	}
}

// TestBenchEvictOnPublishedTraces needs the folder with the traces in TRACE_DIR.
func TestBenchEvictOnPublishedTraces(t *testing.T) {
	dir := os.Getenv("TRACE_DIR")
	if dir == "" {
		t.Skip("TRACE_DIR is not set to the folder of the published traces")
	}
	for _, name := range []string{"conversation", "synthetic"} {
		for _, r := range benchEvict(t, "--trace", filepath.Join(dir, name+"_trace.jsonl")) {
			t.Logf("%-12s %-8s %5d  blocks %.4f  prefix %.4f", name, r.Policy, r.Capacity, r.Block, r.Prefix)
			if name == "conversation" && r.Capacity == 1000 {
				assert.Greater(t, r.Block, 0.0444, "nothing is worse than LRU here")
			}
		}
	}
	for _, c := range []struct {
		trace    string
		capacity string
		least    float64
	}{
		{"conversation", "500", .165},
		{"conversation", "1000", .225},
		{"conversation", "3000", .325},
		{"synthetic", "1000", .45},
	} {
		rows := benchEvict(t, "--trace", filepath.Join(dir, c.trace+"_trace.jsonl"), "--capacity", c.capacity, "--policy", "prefix", "--tiers", "1:10")
		assert.GreaterOrEqual(t, rows[0].Prefix, c.least, "%s at %s blocks and ten times that behind them", c.trace, c.capacity)
	}
}

// TestBenchEvictRunsInstalledPolicies: each in a process of its own, beside the built-in ones.
func TestBenchEvictRunsInstalledPolicies(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and starts a program")
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755)) //nolint:gosec // as the rules of trust want it
	program := filepath.Join(dir, "mooncake-plugin-evict-lru")
	text, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "github.com/mooncake-go/mooncake/plugins/evict-lru/cmd/mooncake-plugin-evict-lru").CombinedOutput()
	require.NoError(t, err, "%s", text)
	require.NoError(t, os.Chmod(program, 0o755)) //nolint:gosec // a program
	rows := benchEvict(t, "--trace", smallTrace, "--capacity", "20", "--policy", "lru,optimum", "--plugin", "lru", "--plugin-dir", dir)
	require.Len(t, rows, 3)
	assert.Equal(t, "evict/lru", rows[0].Policy)
	assert.Equal(t, rows[1].Block, rows[0].Block, "it is lru")

	for want, args := range map[string][]string{
		"--plugin-dir needs --plugin":                  {"--plugin-dir", dir},
		`there is no evict "lrv"; did you mean "lru"?`: {"--plugin", "lrv", "--plugin-dir", dir},
	} {
		e, _, stderr := clitest.New()
		assert.NotZero(t, cli.Run(e, append([]string{"mooncake", "bench", "evict", "--trace", smallTrace}, args...)))
		assert.Contains(t, stderr.String(), want)
	}
}
