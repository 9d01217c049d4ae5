package workload

import (
	"math"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// TokensPerBlock is the number of prompt tokens that one block stands for.
const TokensPerBlock = 512

// Config describes a conversation load. The zero value is not valid; start from Default.
type Config struct {
	// Seed picks one load out of all with the same figures.
	Seed uint64 `json:"seed"`
	// Requests is the length of the load, 1 to 1<<24.
	Requests int `json:"requests"`
	// Sessions is how many conversations are open at a time, 1 to 1<<16. One that has
	// reached MaxBlocks ends and a new one takes its place.
	Sessions int `json:"sessions"`
	// SystemPrompts is how many system prompts there are, 1 to 1<<16; SystemBlocks is the
	// length of each, 0 to MaxBlocks-1.
	SystemPrompts int `json:"system_prompts"`
	SystemBlocks  int `json:"system_blocks"`
	// PromptBlocks and OutputBlocks are the largest numbers of blocks that a turn's
	// question and answer add, each at least 1; the real numbers are spread evenly from 1.
	PromptBlocks int `json:"prompt_blocks"`
	OutputBlocks int `json:"output_blocks"`
	// MaxBlocks is the longest prompt, up to 1<<16: the context window.
	MaxBlocks int `json:"max_blocks"`
	// Skew is the exponent of the popularity of system prompts and of the pace of
	// sessions, 0 (all alike) to 4.
	Skew float64 `json:"skew"`
	// ThinkTime is the mean pause of the liveliest session between two turns, 1 ms to 24 h.
	ThinkTime time.Duration `json:"think_time"`
	// FirstBlock is the first block id that is used.
	FirstBlock uint64 `json:"first_block"`
}

// Default is the load of the demo: 11,084 blocks, 1,886 of them distinct.
func Default() Config {
	return Config{
		Seed: 1, Requests: 400, Sessions: 48, SystemPrompts: 6, SystemBlocks: 6,
		PromptBlocks: 4, OutputBlocks: 4, MaxBlocks: 64, Skew: 0.8, ThinkTime: 5 * time.Second,
	}
}

// Validate reports the first figure that cannot work, with what is allowed.
func (c Config) Validate() error {
	ranges := []struct {
		name       string
		v, lo, hi  int
		suggestion string
	}{
		{"requests", c.Requests, 1, 1 << 24, ""},
		{"sessions", c.Sessions, 1, 1 << 16, ""},
		{"system_prompts", c.SystemPrompts, 1, 1 << 16, ""},
		{"max_blocks", c.MaxBlocks, 1, 1 << 16, ""},
		{"system_blocks", c.SystemBlocks, 0, c.MaxBlocks - 1, "a system prompt must be shorter than max_blocks"},
		{"prompt_blocks", c.PromptBlocks, 1, c.MaxBlocks - c.SystemBlocks, "system_blocks and prompt_blocks together must fit in max_blocks"},
		{"output_blocks", c.OutputBlocks, 1, 1 << 16, ""},
	}
	for _, r := range ranges {
		if r.v < r.lo || r.v > r.hi {
			err := errs.New(errs.InvalidParams, "workload", "%s is %d, want %d to %d", r.name, r.v, r.lo, r.hi)
			err.Hint = r.suggestion
			return err
		}
	}
	if math.IsNaN(c.Skew) || c.Skew < 0 || c.Skew > 4 {
		return errs.New(errs.InvalidParams, "workload", "skew is %g, want 0 to 4", c.Skew)
	}
	if c.ThinkTime < time.Millisecond || c.ThinkTime > 24*time.Hour {
		return errs.New(errs.InvalidParams, "workload", "think_time is %v, want 1ms to 24h", c.ThinkTime)
	}
	return nil
}
