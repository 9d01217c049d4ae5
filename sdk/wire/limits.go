package wire

import "time"

const (
	// MaxMessage is the largest gRPC message in bytes, either way.
	MaxMessage = 4 << 20
	// MaxConfig is the largest configuration in bytes of JSON.
	MaxConfig = 1 << 20

	// DefaultTimeout bounds one call of a kind.
	DefaultTimeout = 10 * time.Second
	// LifecycleTimeout bounds Configure, Start and Stop where the context does not.
	LifecycleTimeout = 30 * time.Second

	// maxEvents, maxVerdicts and maxCandidates bound one evict message: at most 37 bytes an
	// item, so 1.2 MiB.
	maxEvents     = 32 << 10
	maxVerdicts   = 32 << 10
	maxCandidates = 32 << 10
	// maxItems bounds one alloc message. An item that failed carries up to maxItemText
	// bytes of text, which makes 2.3 MiB.
	maxItems = 4 << 10
	// maxSpaces bounds the candidate spaces of all requests in one alloc message, 1.3 MiB.
	maxSpaces = 128 << 10

	// maxText and maxItemText bound the text of an error for a call and for one item of a
	// batch, in bytes.
	maxText     = 4 << 10
	maxItemText = 512

	// maxInFlight bounds the calls of one client that wait for an answer.
	maxInFlight = 1024
)
