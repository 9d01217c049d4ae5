package storeservice

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"
)

// parse reads a JSON object, and refuses what decoding would change silently: bytes that
// are not UTF-8, and halves of surrogate pairs.
func parse(body []byte) (fields, error) {
	if !utf8.Valid(body) {
		return nil, errors.New("it is not UTF-8")
	}
	if loneSurrogate(body) {
		return nil, errors.New("it has half of a surrogate pair, which is no character")
	}
	var f fields
	if err := json.Unmarshal(body, &f); err != nil {
		return nil, err
	}
	if f == nil {
		return nil, errors.New("it is null and must be an object")
	}
	return f, nil
}

// loneSurrogate reports an escape \ud800 to \udfff that is not one of a pair. What is no
// JSON text is found out later.
func loneSurrogate(body []byte) bool {
	for i := 0; i < len(body); {
		next := bytes.IndexByte(body[i:], '\\')
		if next < 0 {
			return false
		}
		i += next
		switch unit := escaped(body[i:]); {
		case unit >= 0xdc00 && unit <= 0xdfff:
			return true
		case unit >= 0xd800 && unit <= 0xdbff:
			low := escaped(body[i+6:])
			if low < 0xdc00 || low > 0xdfff {
				return true
			}
			i += 12
		default:
			i += 2 // also \\ and \"
		}
	}
	return false
}

// escaped returns the number of an escape \uXXXX that b begins with, -1 for none.
func escaped(b []byte) int64 {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return int64(n)
}

// given reports whether a field is there and not null.
func (f fields) given(name string) bool {
	raw, ok := f[name]
	return ok && string(raw) != "null"
}

// text returns a field that is a text, empty where it is not given.
func (f fields) text(name string) (string, error) {
	if !f.given(name) {
		return "", nil
	}
	var s string
	if json.Unmarshal(f[name], &s) != nil {
		return "", fmt.Errorf("%s must be a string", name)
	}
	return s, nil
}

// whole returns a field that is a whole number from 0 on, written without a fraction or
// exponent, and def where it is not given.
func (f fields) whole(name string, def uint64) (uint64, error) {
	if !f.given(name) {
		return def, nil
	}
	n, err := strconv.ParseUint(string(f[name]), 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%s must be a whole number, 0 or more and below 2^63", name)
	}
	return n, nil
}

// maxGrace is the longest grace period.
const maxGrace = 3600

// grace returns grace_period_seconds, by default 0.
func (f fields) grace() (time.Duration, error) {
	n, err := f.whole("grace_period_seconds", 0)
	if err != nil || n > maxGrace {
		return 0, fmt.Errorf("grace_period_seconds must be a whole number from 0 to %d", maxGrace)
	}
	return time.Duration(n) * time.Second, nil
}
