package value

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes, never negative.
type Size int64

// The binary multiples. KB and KiB are both 1024, as they are in upstream.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
	TiB Size = 1 << 40
)

var errSize = errors.New("must be a size: a number of bytes, or a number with one of B, K, M, G, T, KB, MB, GB, TB, KiB, MiB, GiB, TiB in any case (all multiples of 1024), such as 4GB, 1.5GiB or 16777216")

var sizeUnits = []struct {
	name  string
	bytes Size
}{
	{"", 1}, {"b", 1},
	{"k", KiB}, {"kb", KiB}, {"kib", KiB},
	{"m", MiB}, {"mb", MiB}, {"mib", MiB},
	{"g", GiB}, {"gb", GiB}, {"gib", GiB},
	{"t", TiB}, {"tb", TiB}, {"tib", TiB},
}

// ParseSize parses a size. Decimals are allowed with a unit and round down to a byte;
// blanks are allowed around number and unit. The largest value is 8 EiB - 1.
func ParseSize(text string) (Size, error) {
	text = strings.ToLower(strings.TrimSpace(text))
	number := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyz")
	suffix := text[len(number):]
	number = strings.TrimSpace(number)
	for _, u := range sizeUnits {
		if u.name == suffix && (suffix != "" || digits(number)) {
			return sizeOf(number, u.bytes)
		}
	}
	return 0, errSize
}

func sizeOf(number string, unit Size) (Size, error) {
	if n, err := strconv.ParseUint(number, 10, 63); err == nil {
		if n > uint64(math.MaxInt64/int64(unit)) {
			return 0, errors.New("is larger than a size can be (8 EiB)")
		}
		return Size(n) * unit, nil
	}
	if !decimal(number) {
		return 0, errSize
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, errSize
	}
	if f *= float64(unit); f >= math.MaxInt64 {
		return 0, errors.New("is larger than a size can be (8 EiB)")
	}
	return Size(f), nil
}

// decimal reports whether s is digits, one point and digits.
func decimal(s string) bool {
	whole, fraction, ok := strings.Cut(s, ".")
	return ok && digits(whole) && digits(fraction)
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != "" && len(s) <= 19
}

// String prints the size in the largest unit that divides it, so that ParseSize reads it
// back exactly: 4GiB, 1536MiB, 1000.
func (s Size) String() string {
	for _, u := range []struct {
		name  string
		bytes Size
	}{{"TiB", TiB}, {"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}} {
		if s != 0 && s%u.bytes == 0 {
			return strconv.FormatInt(int64(s/u.bytes), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}
