package rpc

import (
	"math"
	"time"
)

// Spans of time on the wire are never negative: what is over is 0. A span that does not
// fit into a time.Duration becomes the longest that does.

// wireMillis rounds up, since 0 often means none.
func wireMillis(d time.Duration) uint64 {
	d = max(d, 0)
	ms := uint64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		ms++
	}
	return ms
}

func goMillis(ms uint64) time.Duration {
	return time.Duration(min(ms, math.MaxInt64/uint64(time.Millisecond))) * time.Millisecond
}

// wireMicros rounds down.
func wireMicros(d time.Duration) uint64 { return uint64(max(d, 0) / time.Microsecond) }

func goMicros(us uint64) time.Duration {
	return time.Duration(min(us, math.MaxInt64/uint64(time.Microsecond))) * time.Microsecond
}

// wireTime returns microseconds since 1970, 0 for the zero time.
func wireTime(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func goTime(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us)
}
