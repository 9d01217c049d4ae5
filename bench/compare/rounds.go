// Package compare measures contenders in turn and makes rows of the result: the medians of this
// project and of a competitor side by side, and how many times better the first one is.
package compare

import (
	"context"
	"fmt"
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

// Unavailable is a contender that cannot take part.
func Unavailable(name, reason string) Contender { return Contender{Name: name, Missing: reason} }

// Outcome is what a contender reached over all rounds.
type Outcome struct {
	Name    string
	Missing string
	rounds  map[string][]float64
}

// Figure returns one measure of it.
func (o Outcome) Figure(measure string) Figure {
	f := Figure{Name: o.Name, Missing: o.Missing}
	if f.Missing == "" {
		if f.Rounds = o.rounds[measure]; len(f.Rounds) == 0 {
			f.Missing = "it has no " + measure
		}
	}
	return f
}

// Alternate measures each contender once to warm up and then n times. A different contender begins
// each round, so that a machine that gets busy or quiet in between slows all of them down alike. A
// contender that fails is left out from then on, and its outcome says why. The error is that of ctx
// alone. Outcomes are in the order of the contenders.
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
