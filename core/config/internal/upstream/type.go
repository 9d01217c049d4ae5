package upstream

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/mooncake-go/mooncake/core/config/internal/value"
)

// Type is a type of upstream's settings.
type Type string

// The types.
const (
	String   Type = "string"
	Bool     Type = "bool"
	Int32    Type = "int32"
	Int64    Type = "int64"
	Uint32   Type = "uint32"
	Uint64   Type = "uint64"
	Double   Type = "double"
	Duration Type = "duration" // a bare number is milliseconds
	Size     Type = "size"     // text with units
	Presence Type = "presence" // any value, even an empty one, switches it on
)

// canonical checks text against the type and returns a form in which equal values are
// equal texts.
func (t Type) canonical(text string) (string, error) {
	switch t {
	case Bool:
		b, err := value.Bool(text)
		return strconv.FormatBool(b), err
	case Int32:
		return signed(text, math.MinInt32, math.MaxInt32)
	case Int64:
		return signed(text, math.MinInt64, math.MaxInt64)
	case Uint32:
		return unsigned(text, math.MaxUint32)
	case Uint64:
		return unsigned(text, math.MaxUint64)
	case Double:
		f, err := value.Float(text)
		return value.FormatFloat(f), err
	case Duration:
		d, err := value.Duration(text, value.Millisecond)
		return value.FormatDuration(d), err
	case Size:
		s, err := value.ParseSize(text)
		return s.String(), err
	default:
		return text, nil
	}
}

func signed(text string, low, high int64) (string, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || n < low || n > high {
		return "", fmt.Errorf("must be a whole number from %d to %d", low, high)
	}
	return strconv.FormatInt(n, 10), nil
}

func unsigned(text string, high uint64) (string, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	if err != nil || n > high {
		return "", errors.New("must be a whole number from 0 to " + strconv.FormatUint(high, 10))
	}
	return strconv.FormatUint(n, 10), nil
}
