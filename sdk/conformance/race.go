//go:build race

package conformance

// slowdown is how many times as long Test waits: the race detector slows a plugin down several times.
const slowdown = 4
