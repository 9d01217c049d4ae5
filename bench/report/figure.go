package report

import "slices"

// Figure is what one contender of a comparison reached.
type Figure struct {
	// Name says whose it is, for example "redis-server 7.0.15".
	Name string
	// Rounds are the measured values, one a round, in any order.
	Rounds []float64
	// Missing is why there are none, empty where there are some.
	Missing string
}

// Fixed is a figure that is not measured here: a limit that was set, or a value that somebody
// measured elsewhere. Its name has to say so.
func Fixed(name string, value float64) Figure {
	return Figure{Name: name, Rounds: []float64{value}}
}

// Absent is the figure of a contender that could not be measured.
func Absent(name, reason string) Figure {
	return Figure{Name: name, Missing: reason}
}

// Median returns the middle of the rounds, and false where there are none.
func (f Figure) Median() (float64, bool) {
	if f.Missing != "" || len(f.Rounds) == 0 {
		return 0, false
	}
	v := slices.Sorted(slices.Values(f.Rounds))
	mid := len(v) / 2
	if len(v)%2 == 1 {
		return v[mid], true
	}
	return (v[mid-1] + v[mid]) / 2, true
}

// reason is why there is no median.
func (f Figure) reason() string {
	if f.Missing == "" {
		return "it was not measured"
	}
	return f.Missing
}
