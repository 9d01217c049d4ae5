// Package rounds measures contenders in turn, so that a machine that gets busy or quiet in
// between slows all of them down alike.
package rounds

import (
	"context"
	"fmt"

	"github.com/mooncake-go/mooncake/bench/report"
)

// Values are what one round of one contender measured, by the name of the measure.
type Values map[string]float64

// Contender is one side of a comparison.
type Contender struct {
	Name string
	// Missing is why it cannot take part, empty where it can. Measure is then not called.
	Missing string
	// Measure does one round of the work. It returns when ctx ends.
	Measure func(ctx context.Context) (Values, error)
}

// Absent is a contender that cannot take part.
func Absent(name, reason string) Contender { return Contender{Name: name, Missing: reason} }

// Outcome is what a contender reached over all rounds.
type Outcome struct {
	Name    string
	Missing string
	rounds  map[string][]float64
}

// Figure returns one measure of it.
func (o Outcome) Figure(measure string) report.Figure {
	if o.Missing != "" {
		return report.Absent(o.Name, o.Missing)
	}
	if len(o.rounds[measure]) == 0 {
		return report.Absent(o.Name, "it has no "+measure)
	}
	return report.Figure{Name: o.Name, Rounds: o.rounds[measure]}
}

// Alternate measures each contender once to warm up and then n times, who begins changes from
// round to round. A contender that fails is left out from then on, and its outcome says why.
// The error is that of ctx alone. Outcomes are in the order of the contenders.
func Alternate(ctx context.Context, n int, contenders ...Contender) ([]Outcome, error) {
	out := make([]Outcome, len(contenders))
	for i, c := range contenders {
		out[i] = Outcome{Name: c.Name, Missing: c.Missing, rounds: map[string][]float64{}}
	}
	for round := range n + 1 {
		for i := range contenders {
			i = (i + round) % len(contenders)
			if out[i].Missing != "" {
				continue
			}
			values, err := contenders[i].Measure(ctx)
			if ctx.Err() != nil {
				return nil, fmt.Errorf("measure %s: %w", contenders[i].Name, ctx.Err())
			}
			if err != nil {
				out[i].Missing = fmt.Sprintf("round %d failed: %v", round, err)
				continue
			}
			if round == 0 {
				continue
			}
			for measure, v := range values {
				out[i].rounds[measure] = append(out[i].rounds[measure], v)
			}
		}
	}
	return out, nil
}
