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

	// DefaultOverdue is how long after its deadline an operation of a transport may stay
	// without a completion.
	DefaultOverdue = 5 * time.Second
	// OpTimeout is the time limit of an operation of a transport without a deadline.
	OpTimeout = 30 * time.Second
	// DefaultStaging is the size in bytes of the area through which a transport gets at memory
	// that has no descriptor.
	DefaultStaging = 32 << 20

	// pathSlots is how many operations can be under way on a path.
	pathSlots = 1024
	// maxBlob bounds a key and the blob of an endpoint, in bytes.
	maxBlob = 4 << 10
	// maxRails bounds the rails of a path.
	maxRails = 4 << 10
	// maxAccept bounds what transport.Upstream.Accept takes and gives, in bytes.
	maxAccept = 1 << 20
	// maxUnclaimed bounds the messages with descriptors that no call asked for yet.
	maxUnclaimed = 64

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
