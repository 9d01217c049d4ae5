package value

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

var errDuration = errors.New("must be a duration such as 500ms, 10s, 5m, 2h or 1m30s")

// Unit is what a bare number means where a duration is expected: Millisecond or Second,
// or None where a unit has to be written.
type Unit time.Duration

// The units a bare number can have.
const (
	None        Unit = 0
	Millisecond Unit = Unit(time.Millisecond)
	Second      Unit = Unit(time.Second)
)

// String returns ms, s or the empty string.
func (u Unit) String() string {
	switch u {
	case Millisecond:
		return "ms"
	case Second:
		return "s"
	default:
		return ""
	}
}

// Duration parses a duration that is not negative: a whole number with one of the units
// ms, s, m, h in any case and with blanks around it, or Go's syntax (1m30s, 1.5s). A bare
// number counts in bare; 0 needs no unit. The largest value is about 292 years.
func Duration(text string, bare Unit) (time.Duration, error) {
	text = strings.ToLower(strings.TrimSpace(text))
	digits := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyz")
	suffix := text[len(digits):]
	number := strings.TrimSpace(digits)
	if n, err := strconv.ParseUint(number, 10, 63); err == nil {
		if unit, ok := durationUnit(suffix, bare); ok {
			return scale(n, unit)
		}
		if suffix == "" {
			if n == 0 {
				return 0, nil
			}
			return 0, errors.New("needs a unit: write " + number + "ms, " + number + "s, " + number + "m or " + number + "h")
		}
	}
	if !goDuration(text) {
		return 0, errDuration
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, errDuration
	}
	return d, nil
}

// goDuration reports whether every piece of text ends in a unit, so that ParseDuration's
// sign and its bare 0 are left out.
func goDuration(text string) bool {
	return text != "" && text[0] >= '0' && text[0] <= '9' && strings.ContainsAny(text, "smh")
}

func durationUnit(suffix string, bare Unit) (time.Duration, bool) {
	switch suffix {
	case "":
		return time.Duration(bare), bare != None
	case "ms":
		return time.Millisecond, true
	case "s":
		return time.Second, true
	case "m":
		return time.Minute, true
	case "h":
		return time.Hour, true
	}
	return 0, false
}

func scale(n uint64, unit time.Duration) (time.Duration, error) {
	if n > uint64(math.MaxInt64/int64(unit)) {
		return 0, errors.New("is longer than a duration can be (about 292 years)")
	}
	return time.Duration(n) * unit, nil
}

// FormatDuration prints d so that Duration reads it back exactly, without the zero
// parts that Go's own form has: 10s, 5m, 1h30m, 500ms.
func FormatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
