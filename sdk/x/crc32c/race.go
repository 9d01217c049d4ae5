//go:build race

package crc32c

// raceEnabled: the detector does not see what assembly does, so copies are left to Go.
const raceEnabled = true
