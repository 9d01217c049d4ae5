package tier

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// Figure is a measurement beside another one, which may be missing.
type Figure struct {
	Figure     string   `json:"figure"`
	Ours       float64  `json:"ours"`
	Beside     *float64 `json:"beside"`
	BesideName string   `json:"beside_name"`
	Ratio      *float64 `json:"ratio"`
	Goal       string   `json:"goal"`
	Unit       string   `json:"unit"`
}

// Figures are printed as a table.
type Figures []Figure

// Text writes the table.
func (f Figures) Text(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FIGURE\tOURS\tBESIDE\tRATIO\tGOAL")
	for _, x := range f {
		beside, ratio := "-", "-"
		if x.Beside != nil {
			beside = fmt.Sprintf("%.4g %s (%s)", *x.Beside, x.Unit, x.BesideName)
		}
		if x.Ratio != nil {
			ratio = fmt.Sprintf("%.2f", *x.Ratio)
		}
		fmt.Fprintf(t, "%s\t%.4g %s\t%s\t%s\t%s\n", x.Figure, x.Ours, x.Unit, beside, ratio, x.Goal)
	}
	_ = t.Flush() // The error is that of w, which the caller has.
}

func figure(name, unit, goal string, ours, theirs []speed, beside string, of func(speed) float64) Figure {
	f := Figure{Figure: name, Unit: unit, Goal: goal, Ours: median(ours, of)}
	if len(theirs) > 0 {
		b := median(theirs, of)
		f.Beside, f.BesideName = &b, beside
		if b > 0 { // fio counts processor time in steps.
			r := f.Ours / b
			f.Ratio = &r
		}
	}
	return f
}

func median(all []speed, of func(speed) float64) float64 {
	values := make([]float64, len(all))
	for i, s := range all {
		values[i] = of(s)
	}
	slices.Sort(values)
	if n := len(values); n%2 == 0 {
		return (values[n/2-1] + values[n/2]) / 2
	}
	return values[len(values)/2]
}
