package evictsim

import (
	"fmt"
	"os"
	"slices"

	"github.com/mooncake-go/mooncake/core/bench/trace"
	"github.com/mooncake-go/mooncake/core/bench/workload"
)

// LoadFile reads a trace from a file in the FAST'25 format. The error names the file.
func LoadFile(path string) (*Trace, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := Load(trace.NewReader(f))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// Builtin makes the trace with which `mooncake plugins conformance` compares policies, always the same: conversations that share
// system prompts and grow turn by turn. It is short, so that a policy in a process of its own plays it in seconds.
func Builtin() (*Trace, error) {
	c := workload.Default()
	c.Requests, c.Sessions = 250, 32
	g, err := workload.New(c)
	if err != nil {
		return nil, err
	}
	return Load(g)
}

// Fitting returns sizes of the pool at which policies differ on a trace: shares of its distinct blocks.
func Fitting(t *Trace) []int {
	return slices.Compact([]int{max(t.Distinct()/16, 1), max(t.Distinct()/6, 1), max(t.Distinct()/3, 1)})
}

// Alike returns the other policies whose hits are those of a policy at each capacity.
func (rs Results) Alike(policy string) []string {
	var out []string
	for _, r := range rs {
		if r.Policy != policy && !slices.Contains(out, r.Policy) && rs.alike(policy, r.Policy) {
			out = append(out, r.Policy)
		}
	}
	return out
}

func (rs Results) alike(a, b string) bool {
	for _, r := range rs {
		if r.Policy != a {
			continue
		}
		if other, ok := rs.Find(b, r.Capacity); !ok || other.BlockHitRatio != r.BlockHitRatio || other.PrefixHitRatio != r.PrefixHitRatio {
			return false
		}
	}
	return true
}
