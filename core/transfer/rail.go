package transfer

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

// claim is what the rails of a path know of a slice, and what they decided about it.
type claim struct {
	started  time.Time // when the current attempt began
	deadline time.Time // of the current attempt
	tried    bitset    // the rails on which the slice failed
	force    bool      // the slice may take a paused rail, since no other is left
	crowded  bool      // no rail can move the slice soon enough

	rail   *rail // that counts the slice
	size   int64
	queued int64         // bytes in flight on the rail when the slice was added, with its own
	eta    time.Duration // how long the slice was expected to take when it was added to its rail
}

// bitset is a set of small numbers.
type bitset [maxRails / 64]uint64

func (b *bitset) has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }
func (b *bitset) add(i int)      { b[i/64] |= 1 << (i % 64) }
