package plugins

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/core/bench/evictsim"
	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// comparison is an eviction policy beside the built-in ones.
type comparison struct {
	name    string // of the policy among the contenders
	of      string // which trace
	trace   *evictsim.Trace
	results evictsim.Results
}

// comparison returns what compares an eviction policy with the built-in ones after the checks: in a whole run, and if --trace names a
// trace. It is nil in other runs.
func (f conformanceFlags) comparison(id plugin.ID) (*comparison, error) {
	if id.Kind != plugin.KindEvict || (f.trace == "" && (f.run != "" || f.skip != "")) {
		return nil, nil
	}
	c := &comparison{name: id.String(), of: "the built-in trace"}
	var err error
	if f.trace == "" {
		c.trace, err = evictsim.Builtin()
		return c, err
	}
	c.of = f.trace
	if c.trace, err = evictsim.LoadFile(f.trace); err != nil {
		return nil, command.Usagef("--trace: %w", err)
	}
	return c, nil
}

// play plays the trace against the policy and the built-in ones.
func (c *comparison) play(ctx context.Context, builtins []plugin.Factory, f evict.Factory) error {
	contenders := []evictsim.Contender{{Name: c.name, Factory: f}}
	for _, b := range builtins {
		if b, ok := b.(evict.Factory); ok {
			contenders = append(contenders, evictsim.Contender{Name: b.Manifest().Name, Factory: b})
		}
	}
	contenders = append(contenders, evictsim.Contender{Name: evictsim.OptimumName})
	results, err := evictsim.Sweep(ctx, c.trace, evictsim.Options{
		Contenders: contenders, Capacities: evictsim.Fitting(c.trace), Parallel: runtime.GOMAXPROCS(0),
	})
	if err != nil {
		return fmt.Errorf("hit ratios on %s: %w", c.of, err)
	}
	c.results = results
	return nil
}

// figures returns the hit ratios of the policy for a report.
func (c *comparison) figures() []conformance.Figure {
	var out []conformance.Figure
	for _, r := range c.results {
		if r.Policy == c.name {
			out = append(out, conformance.Figure{Check: "hit ratios", Name: fmt.Sprintf("prefix hit ratio, %d blocks", r.Capacity), Value: 100 * r.PrefixHitRatio, Unit: "%"})
		}
	}
	return out
}

// write prints the hit ratios, and which policies behave alike.
func (c *comparison) write(w io.Writer) {
	fmt.Fprintf(w, "hit ratios on %s: %d requests, %d blocks, %d distinct\n", c.of, c.trace.Requests(), c.trace.Blocks(), c.trace.Distinct())
	c.results.Text(w)
	alike := c.results.Alike(c.name)
	if len(alike) > 0 {
		fmt.Fprintf(w, "\n%s behaves as %s on this trace: the hit ratios are the same at each capacity\n", c.name, strings.Join(alike, " and as "))
	}
}
