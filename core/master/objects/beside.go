package objects

import (
	"slices"

	"github.com/mooncake-go/mooncake/core/master/journal"
	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
)

// beside returns what the object has beside its record, nil for nothing.
func (o object) beside() *beside { return o.in.besides.at(o.more) }

// setBeside replaces that. The zero value is nothing.
func (o object) setBeside(b beside) {
	switch {
	case b == beside{}:
		o.in.besides.remove(o.more)
		o.more = 0
	case o.more == 0:
		o.more = o.in.besides.add(b)
	default:
		*o.beside() = b
	}
}

// beside is what objects have that a storage tier has, or that have an extra.
type beside struct {
	// seg, offset and id are those of the copy on a storage tier beside the one in memory. Where seg is nil, id is the number of
	// the put if that of the only copy is another one.
	seg        *segments.Segment
	id, offset uint64
	rest       *extra
}

// extra is what few objects have.
type extra struct {
	key  string         // where the shard's store of keys does not take it
	size uint64         // where it does not fit
	sum  model.Checksum // where it does not fit
	// grains are the checksums of the grains of a complete object, nil for none. They never change.
	grains []uint32
	// copies are all copies, where there are several or one in several pieces.
	copies []replica
	put    uint64 // with copies: see object.put
	group  *group
	// pinEnd is when the soft pin ends; pinTTL how long it is to last once the object is
	// complete.
	pinEnd lease.Instant
	pinTTL int64
	task   *copying
}

// replica is one copy.
type replica struct {
	id     uint64
	target bool // being written by a copy or move
	parts  []segments.Extent
}

// rest returns what few objects have, nil for none.
func (o object) rest() *extra {
	if b := o.beside(); b != nil {
		return b.rest
	}
	return nil
}

func (o object) extra() *extra {
	if o.rest() == nil {
		var b beside
		if have := o.beside(); have != nil {
			b = *have
		}
		b.rest = &extra{}
		o.setBeside(b)
	}
	return o.rest()
}

func (r *replica) alive() bool { return r.readable(0) }

// mounted reports whether the copy is there, also where a segment is absent.
func (r *replica) mounted() bool {
	return !slices.ContainsFunc(r.parts, func(e segments.Extent) bool { return !e.Seg.Alive() })
}

// readable is alive, and whether the master may let readers rely on the copy at an instant.
func (r *replica) readable(at journal.Instant) bool {
	for i := range r.parts {
		if !r.parts[i].Seg.Readable(at) {
			return false
		}
	}
	return true
}

// behind reports whether all pieces lie on nodes that are behind with their ledgers.
func (r *replica) behind() bool {
	return !slices.ContainsFunc(r.parts, func(e segments.Extent) bool { return !e.Seg.Ledger.Behind() })
}

// on reports whether a piece lies on a segment of that name.
func (r *replica) on(name string) bool {
	for i := range r.parts {
		if r.parts[i].Seg.Name == name {
			return true
		}
	}
	return false
}

// footprint is what a copy of o occupies of memory.
func (r *replica) footprint(o object) uint64 {
	if r.onTier() {
		return 0
	}
	return o.size()
}

// onTier reports whether the copy lies in a storage tier, where it is one piece.
func (r *replica) onTier() bool { return r.parts[0].Seg.OnTier() }

// plain reports whether upstream's clients can read and write the copy.
func (r *replica) plain() bool {
	return len(r.parts) == 1 && model.PlainProtocol(r.parts[0].Seg.Protocol)
}

func (r *replica) describe(status model.ReplicaStatus) model.Replica {
	out := model.Replica{ID: r.id, Status: status, Part: partOf(r.parts[0].Seg, r.parts[0].Offset, r.parts[0].Size)}
	for _, p := range r.parts[1:] {
		out.More = append(out.More, partOf(p.Seg, p.Offset, p.Size))
	}
	return out
}
