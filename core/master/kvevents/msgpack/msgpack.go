// Package msgpack writes and reads the part of MessagePack that KV events use: nil,
// integers, strings, arrays and maps, each in the shortest form that holds it.
package msgpack

import (
	"encoding/binary"
	"math"
)

// AppendNil appends nil.
func AppendNil(dst []byte) []byte { return append(dst, 0xc0) }

// AppendUint appends a number.
func AppendUint(dst []byte, n uint64) []byte {
	switch {
	case n < 1<<7:
		return append(dst, byte(n))
	case n <= math.MaxUint8:
		return append(dst, 0xcc, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, 0xcd), uint16(n))
	case n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(dst, 0xce), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, 0xcf), n)
}

// AppendInt appends a number that may be negative.
func AppendInt(dst []byte, n int64) []byte {
	switch {
	case n >= 0:
		return AppendUint(dst, uint64(n))
	case n >= -32:
		return append(dst, byte(n))
	case n >= math.MinInt8:
		return append(dst, 0xd0, byte(n))
	case n >= math.MinInt16:
		return binary.BigEndian.AppendUint16(append(dst, 0xd1), uint16(n))
	case n >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(dst, 0xd2), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, 0xd3), uint64(n))
}

// AppendString appends a string of less than 4 GiB.
func AppendString(dst []byte, s string) []byte {
	switch n := len(s); {
	case n < 1<<5:
		dst = append(dst, 0xa0|byte(n))
	case n <= math.MaxUint8:
		dst = append(dst, 0xd9, byte(n))
	case n <= math.MaxUint16:
		dst = binary.BigEndian.AppendUint16(append(dst, 0xda), uint16(n))
	default:
		dst = binary.BigEndian.AppendUint32(append(dst, 0xdb), uint32(n)) //nolint:gosec // as the comment demands
	}
	return append(dst, s...)
}

// AppendArray appends the head of an array of n values, less than 2^32, which follow.
func AppendArray(dst []byte, n int) []byte { return appendHead(dst, n, 0x90, 0xdc) }

// AppendMap appends the head of a map of n pairs, less than 2^32, which follow: name, value
// and so on.
func AppendMap(dst []byte, n int) []byte { return appendHead(dst, n, 0x80, 0xde) }

func appendHead(dst []byte, n int, short, long byte) []byte {
	switch {
	case n < 1<<4:
		return append(dst, short|byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, long), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(dst, long+1), uint32(n)) //nolint:gosec // as the comments demand
}
