// Package value reads and prints the scalar values of a configuration: durations, sizes,
// ratios, numbers and booleans, in the spellings that upstream's
// users have in their scripts as well as Go's own.
//
// Every function is pure. Errors state what is allowed and never repeat the value, so
// that the caller decides whether it may be shown.
package value

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// Bool parses true/false, 1/0, yes/no, on/off, enable/disable, t/f and y/n in any case.
func Bool(text string) (bool, error) {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "true", "1", "yes", "on", "enable", "t", "y":
		return true, nil
	case "false", "0", "no", "off", "disable", "f", "n":
		return false, nil
	}
	return false, errors.New("must be true or false (also 1/0, yes/no, on/off)")
}

// Int parses a decimal whole number.
func Int(text string) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return 0, errors.New("must be a whole number")
	}
	return n, nil
}

// Float parses a finite decimal number.
func Float(text string) (float64, error) {
	f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, errors.New("must be a number")
	}
	return f, nil
}

// FormatFloat prints f in the fewest digits that Float reads back exactly.
func FormatFloat(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// List parses a comma-separated list. Blanks around the items and empty items are
// dropped; the result is never nil.
func List(text string) []string {
	out := []string{}
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}
