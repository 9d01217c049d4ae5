package topology

import (
	"cmp"
	"strings"
)

// natural compares names with numbers in them as people do.
func natural(a, b string) int {
	for x, y := a, b; ; {
		wa, na, ra := chunk(x)
		wb, nb, rb := chunk(y)
		if c := cmp.Or(strings.Compare(wa, wb), cmp.Compare(len(na), len(nb)), strings.Compare(na, nb)); c != 0 {
			return c
		}
		if ra == "" && rb == "" {
			return strings.Compare(a, b)
		}
		x, y = ra, rb
	}
}

// chunk splits a name into a word, the number after it without leading zeros, and the rest.
func chunk(s string) (word, number, rest string) {
	digit := func(r rune) bool { return r >= '0' && r <= '9' }
	i := strings.IndexFunc(s, digit)
	if i < 0 {
		return s, "", ""
	}
	end := i + len(s[i:]) - len(strings.TrimLeftFunc(s[i:], digit))
	return s[:i], strings.TrimLeft(s[i:end], "0"), s[end:]
}
