// Package rail keeps the rails of a path: their speed, health and bytes in flight. It chooses a rail
// for each slice.
package rail

import (
	"time"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// maxRails bounds the rails of one path that are used: 16 devices on each side.
const maxRails = 256

// rail is one local device and one device of the peer, or the path as such where its transport has
// no rails.
type rail struct {
	transport.Rail
	index  int
	health health
	speed  speed
	slices int   // in flight
	bytes  int64 // in flight
	full   bool  // the transport refused a slice for lack of space
	turn   uint64

	moved, ended, errors uint64
	last                 time.Time // when a slice last arrived
}

// Claim is what the rails of a path know of a slice, and what they decided about it.
type Claim struct {
	Started  time.Time // when the current attempt began
	Deadline time.Time // of the current attempt
	Tried    Bitset    // the rails on which the slice failed
	Force    bool      // the slice may take a paused rail, since no other is left
	Crowded  bool      // no rail can move the slice soon enough

	Rail   *rail // that counts the slice
	size   int64
	queued int64         // bytes in flight on the rail when the slice was added, with its own
	Eta    time.Duration // how long the slice was expected to take when it was added to its rail
}

// Bitset is a set of small numbers.
type Bitset [maxRails / 64]uint64

func (b *Bitset) has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }

func (b *Bitset) add(i int) { b[i/64] |= 1 << (i % 64) }
