//go:build !race

package conformance

// slowdown is how many times as long Test waits.
const slowdown = 1
