package objects

import (
	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/segments"
)

// Outcome says how an operation on a key ended. The table knows no error texts: the
// caller names the operation.
type Outcome uint8

// The outcomes.
const (
	Done       Outcome = iota
	Missing            // no such object, or nothing is left of it
	Exists             // readable, or somebody is writing it
	Unfinished         // being written
	Foreign            // being written by another client, or written by one
	Written            // already readable, cannot be revoked
	Superseded         // another put of the same client took this one's place
	Leased             // a reader may be reading it
	Pinned             // never to be evicted
)

// Held is an extent of a put that was given up. Its writer may still be writing, so it
// must not be used again before the writer's time is over.
type Held struct {
	segments.Extent
	// Started is when the put began.
	Started lease.Instant
}
