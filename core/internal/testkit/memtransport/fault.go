package memtransport

import (
	"time"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Event describes one operation to a fault hook.
type Event struct {
	From, To string
	Kind     transport.OpKind
	Len      int
	// N counts the operations that From submitted to To, from 1.
	N int
}

// Fault is what happens to an operation. The zero value lets it through.
type Fault struct {
	// Err fails the operation without moving bytes.
	Err error
	// Partial moves the first half of the bytes before Err takes effect.
	Partial bool
	// Quarantine makes the failure a quarantined one.
	Quarantine bool
	// Delay completes the operation that much later.
	Delay time.Duration
	// Stall completes the operation at its deadline only, as failed, without moving bytes.
	Stall bool
	// Hang never completes it, against the contract of transports, until the path closes.
	Hang bool
	// Corrupt flips one bit of the bytes that arrive.
	Corrupt bool
	// NoSum gives no checksum, against what the path says of itself.
	NoSum bool
	// Duplicate reports the completion twice, against the contract.
	Duplicate bool
}

// Hook decides about every operation. It is called concurrently.
type Hook func(Event) Fault
