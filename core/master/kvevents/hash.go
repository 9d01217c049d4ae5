package kvevents

import (
	"math"
	"strings"
)

// sequenceHash reads a key that is a hash as a whole: decimal, or hexadecimal after 0x or
// 0X, up to 2^64-1. No sign, no space, no underscore.
func sequenceHash(key string) (hash uint64, ok bool) {
	base := uint64(10)
	if len(key) >= 2 && key[0] == '0' && key[1]|0x20 == 'x' {
		key, base = key[2:], 16
	}
	if key == "" {
		return 0, false
	}
	for i := range len(key) {
		digit := uint64(strings.IndexByte("0123456789abcdef", lower(key[i])))
		if digit >= base || hash > (math.MaxUint64-digit)/base { // what is no digit is -1
			return 0, false
		}
		hash = hash*base + digit
	}
	return hash, true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}
