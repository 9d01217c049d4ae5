package request

import (
	"time"
)

const (
	// leastRate is the least speed of a peer that is of use, in bytes per second.
	leastRate = 8 << 10
	// leastTime is what a transfer gets whatever its size.
	leastTime = 30 * time.Second
	// longest keeps additions of times from overflowing.
	longest = 365 * 24 * time.Hour
)

// Patience bounds a transfer of so many bytes that is to go on as long as bytes move: it ends one
// to a peer that sends a byte occasionally. It is 30 s and a second for each 8 KiB. A transfer to a
// peer that is silent ends by Config.SliceTimeout.
func Patience(bytes uint64) time.Duration {
	return leastTime + time.Duration(min(float64(bytes)/leastRate, longest.Seconds())*float64(time.Second))
}
