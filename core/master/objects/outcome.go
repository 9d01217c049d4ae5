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
	Exists             // readable, or a client is writing it
	Unfinished         // being written
	Foreign            // being written or copied by another client, or written by one
	Written            // already readable, cannot be revoked
	Superseded         // another put of the same client took this one's place
	Misfit             // the checksums of the grains are not those of such an object
	Leased             // a reader may be reading it
	Silent             // its nodes do not answer, so that its memory would not be free
	Probed             // a lookup found it a moment ago
	HardPinned         // never to be evicted
	SoftPinned         // to be evicted after others only
	Unsaved            // a storage tier has yet to get it
	Copying            // a copy or move of it is in progress
	NotCopying         // none is in progress
	WrongKind          // a move is in progress where a copy was meant, or the other way round
	NoReplica          // no copy lies where one was expected
	SourceGone         // the source of the copy went away meanwhile
	WrongGroup         // it belongs to another group
	GroupFull          // its group has MaxGroup members
	Moved              // it was used meanwhile
	CopyLimit          // the client has as many copies in progress as it may
	NotPlain           // readable, but not by upstream's clients
	NeedsSpace         // cannot be overwritten in place, needs memory of its own
)

// Gone is what left the table: an object, or some of its copies.
type Gone struct {
	Key  string
	Size uint64
	// Footprint is what goes of memory, over all copies that do.
	Footprint uint64
	// Lease is until when a reader may still be reading the extents.
	Lease lease.Instant
	// Since is when the put began if it was Unfinished: then its writer may be writing yet.
	Since      lease.Instant
	Unfinished bool
	// Writer is that of an unfinished put, nil for a complete object.
	Writer *segments.Writer
	// Partial is true when the object itself lives on.
	Partial bool
	// Readable is true when the object could be read until now, Group what it belonged to;
	// unset where it is Partial.
	Readable bool
	Group    string
	// Unsaved is true when a storage tier was to get the object and has not.
	Unsaved bool
	extents int
}

// Bin collects what operations took away. The caller owns the extents then. The zero
// value is ready; use it again with Reset.
type Bin struct {
	Objects []Gone
	extents []segments.Extent
}

// Reset empties the bin and keeps its memory.
func (b *Bin) Reset() {
	clear(b.Objects)
	clear(b.extents)
	b.Objects, b.extents = b.Objects[:0], b.extents[:0]
}

// Each yields what is in the bin, in order.
func (b *Bin) Each(yield func(g *Gone, extents []segments.Extent) bool) {
	at := 0
	for i := range b.Objects {
		g := &b.Objects[i]
		if !yield(g, b.extents[at:at+g.extents]) {
			return
		}
		at += g.extents
	}
}

// whole puts an object in, which is still as it was in the table. w is its writer, nil for a complete one.
func (b *Bin) whole(o object, w *segments.Writer) {
	g := Gone{Key: o.key(), Size: o.size(), Footprint: o.footprint(), Lease: o.leaseEnd(), Since: o.since, Unfinished: !o.has(complete), Readable: o.has(complete), Group: o.group(), Writer: w}
	g.Unsaved = g.Readable && o.unsaved()
	if o.copying() { // A client may be writing its targets.
		g.Unfinished, g.Since = true, o.rest().task.started
	}
	head := len(b.extents)
	b.extents = o.extents(b.extents)
	g.extents = len(b.extents) - head
	b.Objects = append(b.Objects, g)
}

// part puts one copy in.
func (b *Bin) part(o object, r *replica, w *segments.Writer) {
	g := Gone{
		Key: o.key(), Size: o.size(), Footprint: r.footprint(o), Lease: o.leaseEnd(), Since: o.since,
		Unfinished: !o.has(complete), Partial: true, extents: len(r.parts), Writer: w,
	}
	if r.target && !r.onTier() { // A record that is written for a copy that is gone does no harm.
		g.Unfinished, g.Since = true, o.rest().task.started
	}
	b.extents = append(b.extents, r.parts...)
	b.Objects = append(b.Objects, g)
}
