// Package convert turns the values of package model into the messages of the master's protocol and
// back. To… makes a message. From… makes a value, and refuses a message that breaks the contract of
// its columns or the bounds of package rpc. Check… refuses, with InvalidParams, what is out of bounds.
package convert

import (
	"math"
	"strings"
	"time"
	"unsafe"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/model"
)

// Keys are strings here and bytes on the wire. Both directions share the memory: a key a
// item is the largest part of a batch, and neither side writes to a message or a key
// after it was made.

// ToKeys views keys as the field of a message, which must only be read.
func ToKeys(keys []model.Key) [][]byte {
	out := make([][]byte, len(keys))
	for i, k := range keys {
		out[i] = ToKey(k)
	}
	return out
}

// ToKey views a key as bytes, which must only be read.
func ToKey(k model.Key) []byte { return unsafe.Slice(unsafe.StringData(k), len(k)) }

// FromKeys views the field of a decoded message as keys. The message must not be
// changed or decoded into again.
func FromKeys(b [][]byte) []model.Key {
	out := make([]model.Key, len(b))
	for i, k := range b {
		out[i] = unsafe.String(unsafe.SliceData(k), len(k))
	}
	return out
}

// Spans of time on the wire are never negative: what is over is 0. A span that does not
// fit into a time.Duration becomes the longest that does.

// ToMillis rounds up, since 0 often means none.
func ToMillis(d time.Duration) uint64 {
	d = max(d, 0)
	ms := uint64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		ms++
	}
	return ms
}

// FromMillis returns a span of milliseconds.
func FromMillis(ms uint64) time.Duration {
	return time.Duration(min(ms, math.MaxInt64/uint64(time.Millisecond))) * time.Millisecond
}

// toMicros rounds down.
func toMicros(d time.Duration) uint64 { return uint64(max(d, 0) / time.Microsecond) }

func fromMicros(us uint64) time.Duration {
	return time.Duration(min(us, math.MaxInt64/uint64(time.Microsecond))) * time.Microsecond
}

// toTime returns microseconds since 1970, 0 for the zero time.
func toTime(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromTime(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us)
}

// ToUUID returns the message of an ID.
func ToUUID(u model.UUID) *masterv1.UUID { return &masterv1.UUID{Hi: u.Hi, Lo: u.Lo} }

// FromUUID returns the ID in a message.
func FromUUID(u *masterv1.UUID) model.UUID { return model.UUID{Hi: u.GetHi(), Lo: u.GetLo()} }

// Text makes a name fit for a string field, which must be UTF-8; one that is not would make the
// whole answer unsendable.
func Text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// Each applies f to every element.
func Each[A, B any](in []A, f func(A) B) []B {
	out := make([]B, len(in))
	for i, v := range in {
		out[i] = f(v)
	}
	return out
}
