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
	// Local is the memory of From that the bytes leave or reach.
	Local []byte
}

// Fault is what happens to an operation. The zero value lets it through.
type Fault struct {
	// Err fails the operation without moving bytes.
	Err error
	// Partial moves the first half of the bytes before Err takes effect.
	Partial bool
	// Quarantine makes the failure a quarantined one.
	Quarantine bool
	// Delay delays the completion, and with Late the bytes as well.
	Delay time.Duration
	Late  bool
	// Stall fails the operation at its deadline, a hasty read after Haste, without moving bytes.
	Stall bool
	// Hang completes the operation only when the path closes, against the contract of transports.
	Hang bool
	// Corrupt flips one bit of the bytes that arrive.
	Corrupt bool
	// NoSum omits the checksum, although the path promises one.
	NoSum bool
	// Duplicate reports the completion twice, against the contract.
	Duplicate bool
}

// Haste is how long a hasty read waits for a peer that is silent.
const Haste = 300 * time.Millisecond

// Hook decides about every operation. It is called concurrently.
type Hook func(Event) Fault
