//go:build race

package crc32c

// raceEnabled makes copies use Go code: the race detector does not see what assembly does.
const raceEnabled = true
