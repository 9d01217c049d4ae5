package objects

import (
	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// object is one entry, 128 bytes. There may be tens of millions: what few objects need is
// in extra.
type object struct {
	key      string // empty in an unused slot
	size     uint64
	checksum uint64
	// lease is until when a reader may be reading, probe until when a lookup protects it.
	lease, probe lease.Instant
	// since is when the put began, or, once the object is complete, when that ended.
	since lease.Instant
	// ranked is the number of the last event that moved it in the eviction order.
	ranked uint64
	// The only copy, in one piece. Unused where more.copies is set.
	id     uint64
	seg    *segments.Segment
	offset uint64
	more   *extra

	creator    uint32 // who put it and who read it last, as clients numbers them
	reader     uint32
	generation uint32
	slot       uint32 // of an unused slot: the next one, plus one
	dataType   uint8
	sumKind    model.ChecksumKind
	flags      flags
}

type flags uint8

const (
	complete flags = 1 << iota
	hardPin        // never evicted
	softPin        // complete and softly pinned
)

func (o *object) has(f flags) bool { return o.flags&f != 0 }
func (o *object) set(f flags)      { o.flags |= f }
func (o *object) clear(f flags)    { o.flags &^= f }

// extra is what few objects have.
type extra struct {
	// copies are all copies, where there are several or one in several pieces.
	copies []replica
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

func (o *object) extra() *extra {
	if o.more == nil {
		o.more = &extra{}
	}
	return o.more
}

// several returns the copies, nil where there is one in one piece.
func (o *object) several() []replica {
	if o.more == nil {
		return nil
	}
	return o.more.copies
}

// spread makes the only copy one of several.
func (o *object) spread() *extra {
	m := o.extra()
	if m.copies == nil {
		m.copies = []replica{{id: o.id, parts: []segments.Extent{{Seg: o.seg, Offset: o.offset, Size: o.size}}}}
		o.id, o.seg, o.offset = 0, nil, 0
	}
	return m
}

// place sets the copies of a new object and gives them IDs.
func (o *object) place(copies [][]segments.Extent, id func() uint64) {
	if len(copies) == 1 && len(copies[0]) == 1 {
		o.id, o.seg, o.offset = id(), copies[0][0].Seg, copies[0][0].Offset
		return
	}
	m := o.extra()
	m.copies = make([]replica, len(copies))
	for i, parts := range copies {
		m.copies[i] = replica{id: id(), parts: parts}
	}
}

func (r *replica) alive() bool {
	for i := range r.parts {
		if !r.parts[i].Seg.Alive() {
			return false
		}
	}
	return true
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

// alive reports whether a copy is left. A segment that was unmounted takes its copies
// with it at once, whenever the sweep comes by.
func (o *object) alive() bool {
	copies := o.several()
	if copies == nil {
		return o.seg.Alive()
	}
	for i := range copies {
		if !copies[i].target && copies[i].alive() {
			return true
		}
	}
	return false
}

// footprint is what the object occupies, over all copies.
func (o *object) footprint() uint64 {
	if copies := o.several(); copies != nil {
		return o.size * uint64(len(copies))
	}
	return o.size
}

func (o *object) extents(dst []segments.Extent) []segments.Extent {
	copies := o.several()
	if copies == nil {
		return append(dst, segments.Extent{Seg: o.seg, Offset: o.offset, Size: o.size})
	}
	for i := range copies {
		dst = append(dst, copies[i].parts...)
	}
	return dst
}

func (o *object) leaseEnd() lease.Instant {
	if o.more != nil && o.more.group != nil {
		return max(o.lease, lease.Instant(o.more.group.lease.Load()))
	}
	return o.lease
}

func (o *object) probeEnd() lease.Instant {
	if o.more != nil && o.more.group != nil {
		return max(o.probe, lease.Instant(o.more.group.probe.Load()))
	}
	return o.probe
}

func (o *object) copying() bool { return o.more != nil && o.more.task != nil }

// describe appends the copies that are alive, targets of a copy under way left out.
func (o *object) describe(dst []model.Replica, status model.ReplicaStatus) []model.Replica {
	copies := o.several()
	if copies == nil {
		if o.seg.Alive() {
			dst = append(dst, model.Replica{ID: o.id, Status: status, Part: partOf(o.seg, o.offset, o.size)})
		}
		return dst
	}
	for i := range copies {
		if r := &copies[i]; !r.target && r.alive() {
			dst = append(dst, r.describe(status))
		}
	}
	return dst
}

func (r *replica) describe(status model.ReplicaStatus) model.Replica {
	out := model.Replica{ID: r.id, Status: status, Part: partOf(r.parts[0].Seg, r.parts[0].Offset, r.parts[0].Size)}
	for _, p := range r.parts[1:] {
		out.More = append(out.More, partOf(p.Seg, p.Offset, p.Size))
	}
	return out
}

func partOf(s *segments.Segment, offset, size uint64) model.Part {
	return model.Part{SegmentID: s.ID, Segment: s.Name, Endpoint: s.Endpoint, Protocol: s.Protocol, Address: s.Base + offset, Size: size}
}

// Handle names an object that a batch call dealt with, for the next item of the batch.
type Handle = evict.ID
