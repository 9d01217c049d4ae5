package hicache

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

var (
	sizeRE = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)([a-z]*)$`)
	units  = map[byte]int{'b': 0, 'k': 1, 'm': 2, 'g': 3, 't': 4}
)

// ParseSize reads a number of bytes: digits with an optional fraction and, without a blank
// between, an optional unit out of b, k, m, g, t, the latter also as kb or kib and so on,
// in any case and all multiples of 1024. Underscores are ignored; a fraction of a byte is
// cut off.
func ParseSize(text string) (int64, error) {
	m := sizeRE.FindStringSubmatch(strings.ReplaceAll(strings.ToLower(strings.TrimSpace(text)), "_", ""))
	if m == nil {
		return 0, fmt.Errorf("invalid size: %q (a number and a unit, such as 64gb, 1.5gib or 2mb)", text)
	}
	power, ok := unit(m[2])
	if !ok {
		return 0, fmt.Errorf("unsupported size unit in %q (b, k, kb, kib, m, mb, mib, g, gb, gib, t, tb, tib)", text)
	}
	scale := int64(1) << (10 * power)
	if n, err := strconv.ParseInt(m[1], 10, 64); err == nil && n <= math.MaxInt64/scale {
		return n * scale, nil
	}
	f, err := strconv.ParseFloat(m[1], 64)
	if f *= float64(scale); err != nil || f >= math.MaxInt64 {
		return 0, fmt.Errorf("size %q is larger than 8 EiB", text)
	}
	return int64(f), nil
}

func unit(text string) (power int, ok bool) {
	if text == "" {
		return 0, true
	}
	power, ok = units[text[0]]
	rest := text[1:]
	return power, ok && (rest == "" || power > 0 && (rest == "b" || rest == "ib"))
}

// FormatSize prints bytes with two decimals in the largest unit up to TiB that is not
// below one, and plain bytes below 1 KiB.
func FormatSize(n int64) string {
	for _, u := range []struct {
		name  string
		shift int
	}{{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}} {
		if n >= 1<<u.shift {
			return fmt.Sprintf("%.2f %s", float64(n)/float64(int64(1)<<u.shift), u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}
