package tierwire

import "time"

const (
	// DefaultOverdue is how long after its deadline an operation may stay without a completion.
	DefaultOverdue = 5 * time.Second
	// OpTimeout is the longest that a tier may take for an operation without a deadline.
	OpTimeout = 5 * time.Minute

	// window is how many operations a client accepts before their completions are reaped.
	window = 1024
	// maxParts bounds the parts of an operation.
	maxParts = 4096
	// batchBytes is about the size of a message with operations.
	batchBytes = 1 << 20
	// batchItems is the most completions in one message. An error has up to wire.MaxItemText bytes.
	batchItems = 256
	// maxFound bounds the records of one Scan message, whose keys have up to tier.MaxKey bytes.
	maxFound = 1024
	// maxForget bounds the locators of one Forget message, of 38 bytes each.
	maxForget = 64 << 10
	// maxSpaces bounds the answers of Space that a client keeps.
	maxSpaces = 4096

	// slowCall bounds Deregister, Flush and Wipe, which wait for the storage.
	slowCall = 5 * time.Minute
	// stopGrace is how long a Stop waits for the plugin after its context has ended.
	stopGrace = 5 * time.Second
	// endGrace bounds the wait for completions of a process that has ended.
	endGrace = 3 * time.Second
)
