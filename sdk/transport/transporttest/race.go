//go:build race

package transporttest

// raceEnabled: the detector is right about memory that is changed while it is read, which a
// check does on purpose.
const raceEnabled = true
