package quota

import (
	"fmt"
	"strconv"
	"strings"
)

type unit struct {
	name  string
	bytes uint64
}

// units are multiples of 1024, the largest first.
var units = [...]unit{{"TB", 1 << 40}, {"GB", 1 << 30}, {"MB", 1 << 20}, {"KB", 1 << 10}, {"B", 1}}

// ParseQuota reads a quota: a whole number of bytes, or of B, KB, MB, GB or TB, which are
// multiples of 1024, without blanks.
func ParseQuota(text string) (uint64, error) {
	digits := strings.TrimRight(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
	name := text[len(digits):]
	if name == "" {
		name = "B"
	}
	for _, u := range units {
		if u.name != name {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 64)
		switch {
		case err != nil && strings.Trim(digits, "0123456789") != "", digits == "":
			return 0, badQuota(text)
		case err != nil || n > MaxQuota/u.bytes:
			return 0, fmt.Errorf("%q is more than a quota can be, %d bytes", text, int64(MaxQuota))
		case n == 0:
			return 0, fmt.Errorf("%q is nothing; take the tenant out of the list to forbid it to write", text)
		}
		return n * u.bytes, nil
	}
	return 0, badQuota(text)
}

func badQuota(text string) error {
	return fmt.Errorf("%q is no quota: write a whole number with B, KB, MB, GB or TB, such as 200GB", text)
}

// formatQuota writes a quota in the largest unit that divides it.
func formatQuota(bytes uint64) string {
	for _, u := range units {
		if bytes%u.bytes == 0 {
			return strconv.FormatUint(bytes/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatUint(bytes, 10)
}
