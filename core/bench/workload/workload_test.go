package workload

import (
	"errors"
	"io"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/bench/trace"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func collect(t require.TestingT, src trace.Source) []trace.Request {
	var out []trace.Request
	for {
		r, err := src.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err)
		out = append(out, r)
	}
}

func generate(t require.TestingT, cfg Config) []trace.Request {
	g, err := New(cfg)
	require.NoError(t, err)
	return collect(t, g)
}

func anyConfig(t *rapid.T) Config {
	c := Config{
		Seed:          rapid.Uint64().Draw(t, "seed"),
		Requests:      rapid.IntRange(1, 200).Draw(t, "requests"),
		Sessions:      rapid.IntRange(1, 20).Draw(t, "sessions"),
		SystemPrompts: rapid.IntRange(1, 5).Draw(t, "system prompts"),
		SystemBlocks:  rapid.IntRange(0, 8).Draw(t, "system blocks"),
		PromptBlocks:  rapid.IntRange(1, 4).Draw(t, "prompt blocks"),
		OutputBlocks:  rapid.IntRange(1, 4).Draw(t, "output blocks"),
		Skew:          rapid.Float64Range(0, 4).Draw(t, "skew"),
		ThinkTime: rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.IntRange(1, 1000).Draw(t, "ms")) * time.Millisecond
		}).Draw(t, "think"),
		FirstBlock: uint64(rapid.IntRange(0, 1000).Draw(t, "first")),
	}
	c.MaxBlocks = c.SystemBlocks + c.PromptBlocks + rapid.IntRange(0, 40).Draw(t, "space")
	return c
}

// TestShapeOfALoad: requests arrive in time order, a turn carries the whole prompt of the
// turn before it, a block other than of a system prompt belongs to one session at one
// place, and nothing is longer than the context window.
func TestShapeOfALoad(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := anyConfig(t)
		reqs := generate(t, cfg)
		require.Len(t, reqs, cfg.Requests)
		require.Equal(t, reqs, generate(t, cfg), "a load is a function of its configuration")

		shared := cfg.FirstBlock + uint64(cfg.SystemPrompts*cfg.SystemBlocks)
		prompt := map[int][]uint64{}
		type place struct{ session, index int }
		owner := map[uint64]place{}
		for i, r := range reqs {
			require.Equal(t, i, r.Seq)
			require.LessOrEqual(t, len(r.Blocks), cfg.MaxBlocks)
			require.Equal(t, len(r.Blocks)*TokensPerBlock, r.InputTokens)
			if i > 0 {
				require.GreaterOrEqual(t, r.Timestamp, reqs[i-1].Timestamp)
			}
			if before, ok := prompt[r.Session]; ok {
				require.Greater(t, len(r.Blocks), len(before))
				require.Equal(t, before, r.Blocks[:len(before)])
			}
			prompt[r.Session] = r.Blocks
			for j, b := range r.Blocks {
				require.GreaterOrEqual(t, b, cfg.FirstBlock)
				require.Equal(t, j < cfg.SystemBlocks, b < shared)
				if b < shared {
					require.EqualValues(t, j, (b-cfg.FirstBlock)%uint64(cfg.SystemBlocks))
					continue
				}
				if o, ok := owner[b]; ok {
					require.Equal(t, o, place{r.Session, j})
				}
				owner[b] = place{r.Session, j}
			}
		}
	})
}

func TestSeedAndSkewMatter(t *testing.T) {
	cfg := Default()
	a := generate(t, cfg)
	cfg.Seed++
	require.NotEqual(t, a, generate(t, cfg))

	count := func(skew float64) (first int) {
		cfg.Skew = skew
		for _, r := range generate(t, cfg) {
			if r.Blocks[0] == cfg.FirstBlock {
				first++
			}
		}
		return first
	}
	require.Greater(t, count(1.5), 2*count(0), "the first system prompt is the popular one")
}

func TestSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := anyConfig(t)
		reqs := generate(t, cfg)
		workers := rapid.IntRange(1, 5).Draw(t, "workers")
		if rapid.Bool().Draw(t, "sessions unknown") {
			for i := range reqs {
				reqs[i].Session = trace.NoSession
			}
		}
		seen := make([]int, len(reqs))
		for w := range workers {
			src, err := Split(trace.FromSlice(reqs), w, workers)
			require.NoError(t, err)
			last := -1
			for _, r := range collect(t, src) {
				require.Greater(t, r.Seq, last)
				last = r.Seq
				seen[r.Seq]++
			}
		}
		for i, n := range seen {
			require.Equal(t, 1, n, "request %d", i)
		}
	})
}

func TestSplitKeepsSessionsTogether(t *testing.T) {
	reqs := generate(t, Default())
	guess := append([]trace.Request(nil), reqs...)
	for i := range guess {
		guess[i].Session = trace.NoSession
	}
	// A guess may be wrong where a first turn ends within a shared prompt; with three
	// workers two thirds of wrong guesses move a session.
	for _, c := range []struct {
		name  string
		load  []trace.Request
		moves int
	}{{"known", reqs, 0}, {"guessed", guess, len(reqs) / 20}} {
		t.Run(c.name, func(t *testing.T) {
			worker := make([]int, len(reqs))
			shares := make([]int, 3)
			for w := range 3 {
				src, err := Split(trace.FromSlice(c.load), w, 3)
				require.NoError(t, err)
				for _, r := range collect(t, src) {
					shares[w]++
					worker[r.Seq] = w
				}
			}
			moves, latest := 0, map[int]int{}
			for i, r := range reqs {
				if before, ok := latest[r.Session]; ok && before != worker[i] {
					moves++
				}
				latest[r.Session] = worker[i]
			}
			require.LessOrEqual(t, moves, c.moves)
			for w, n := range shares {
				require.Greater(t, n, len(reqs)/8, "worker %d has next to nothing to do", w)
			}
		})
	}
}

// TestShortPromptsDoNotChainSessions: every prompt is the shared system block and one of
// its own, so that each ends where all others do.
func TestShortPromptsDoNotChainSessions(t *testing.T) {
	var reqs []trace.Request
	for i := range 100 {
		reqs = append(reqs, trace.Request{Seq: i, Session: trace.NoSession, Blocks: []uint64{0, uint64(i + 1)}})
		reqs = append(reqs, trace.Request{Seq: i, Session: trace.NoSession, Blocks: []uint64{0, uint64(i + 1), uint64(i + 1000)}})
	}
	for w := range 2 {
		src, err := Split(trace.FromSlice(reqs), w, 2)
		require.NoError(t, err)
		require.Greater(t, len(collect(t, src)), 20, "worker %d", w)
	}
}

func TestSplitRefusesAWorkerThatIsNotThere(t *testing.T) {
	for _, c := range [][2]int{{0, 0}, {-1, 2}, {2, 2}} {
		_, err := Split(trace.FromSlice(nil), c[0], c[1])
		require.True(t, errs.Is(err, errs.InvalidParams), "%v", c)
	}
}

func TestSummarize(t *testing.T) {
	s, err := Summarize(trace.FromSlice([]trace.Request{{Blocks: []uint64{1, 2}}, {Blocks: []uint64{1, 2, 3}}, {}}))
	require.NoError(t, err)
	require.Equal(t, Summary{Requests: 3, Blocks: 5, Distinct: 3, Longest: 3}, s)
	require.InDelta(t, 0.4, ceiling(s), 1e-12)
	require.Zero(t, ceiling(Summary{}))

	g, err := New(Default())
	require.NoError(t, err)
	s, err = Summarize(g)
	require.NoError(t, err)
	t.Logf("default load: %+v, ceiling %.3f", s, ceiling(s))
}

func TestConfigRefusals(t *testing.T) {
	cases := map[string]func(*Config){
		"requests":       func(c *Config) { c.Requests = 0 },
		"sessions":       func(c *Config) { c.Sessions = 1 << 20 },
		"system_prompts": func(c *Config) { c.SystemPrompts = -1 },
		"max_blocks":     func(c *Config) { c.MaxBlocks = 0 },
		"system_blocks":  func(c *Config) { c.SystemBlocks = c.MaxBlocks },
		"prompt_blocks":  func(c *Config) { c.PromptBlocks = c.MaxBlocks },
		"output_blocks":  func(c *Config) { c.OutputBlocks = 0 },
		"skew":           func(c *Config) { c.Skew = -1 },
		"skew is NaN":    func(c *Config) { c.Skew = math.NaN() },
		"think_time":     func(c *Config) { c.ThinkTime = 0 },
	}
	for name, spoil := range cases {
		t.Run(name, func(t *testing.T) {
			cfg := Default()
			spoil(&cfg)
			_, err := New(cfg)
			require.True(t, errs.Is(err, errs.InvalidParams))
			require.ErrorContains(t, err, name)
		})
	}
	require.NoError(t, Default().Validate())
}

// ceiling is the block hit ratio of a pool without limit, 0 for an empty load.
func ceiling(s Summary) float64 {
	if s.Blocks == 0 {
		return 0
	}
	return float64(s.Blocks-s.Distinct) / float64(s.Blocks)
}
