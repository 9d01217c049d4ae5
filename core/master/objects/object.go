package objects

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/master/journal"
	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// record is one entry, 80 bytes without a pointer, so that tens of millions of them cost the garbage collector nothing.
// What does not fit into the narrow fields, and what few objects need, is in extra.
type record struct {
	// lease is until when a reader may be reading.
	lease lease.Instant
	// since is when the put began, or, once the object is complete, when that ended.
	since lease.Instant
	// The only copy, in one piece. Unused where extra.copies is set.
	id     uint64
	offset uint64

	marks      word   // flags, data type, kind of the checksum, rank
	names      word   // slot, creator, reader
	name       uint32 // where the key is; 0 in an unused slot
	seg        uint32 // the segment of the only copy by its number, 0 for none
	more       uint32 // the number of the structure beside it, 0 for none
	size32     uint32 // the size, or wide: see extra
	sum32      uint32 // the checksum, where its kind is not wide
	probeMS    uint32 // how long after since a lookup protects it, in ms rounded up; 0 is not
	generation uint32
}

const wide = math.MaxUint32

// object is an entry with the slots that it is in. It is valid only under the lock of its shard. The zero value is no object.
type object struct {
	*record
	in *slots
}

func (o object) none() bool { return o.record == nil }

// keyBytes returns the key where it is stored: it is valid only under the lock of the shard.
func (o object) keyBytes() []byte { return o.in.nameOf(o.record) }

// key returns a copy of the key.
func (o object) key() string { return string(o.keyBytes()) }

// segment returns that of the only copy, nil for none.
func (o object) segment() *segments.Segment { return o.in.homes.at(o.seg) }

// lie sets the only copy, in one piece; without a segment there is none.
func (o object) lie(id uint64, seg *segments.Segment, offset uint64) {
	was := o.seg
	o.id, o.seg, o.offset = id, o.in.homes.enter(seg), offset
	o.in.homes.leave(was)
}

type flags word

const (
	complete flags = 1 << iota
	hardPin        // never evicted
	softPin        // complete and softly pinned
	away           // complete without a copy in memory, and counted so
	saved          // complete with a copy on a storage tier, and counted so
	dropped        // complete, and a storage tier that had a copy has it no more
)

func (o object) has(f flags) bool { return o.marks&word(f) != 0 }

func (o object) set(f flags) { o.marks |= word(f) }

func (o object) clear(f flags) { o.marks &^= word(f) }

// slot is where the object is in its shard; of an unused slot the next unused one, plus
// one.
func (o object) slot() uint32 { return uint32(o.names.get(slotAt, slotBits)) }

func (o object) setSlot(n uint32) { o.names.put(slotAt, slotBits, uint64(n)) }

// creator returns the client that put it, and reader the one that read it last, by number.
func (o object) creator() uint32 { return uint32(o.names.get(creatorAt, clientBits)) }

func (o object) reader() uint32 { return uint32(o.names.get(readerAt, clientBits)) }

func (o object) setCreator(c Client) { o.names.put(creatorAt, clientBits, uint64(c.number)) }

func (o object) setReader(c Client) { o.names.put(readerAt, clientBits, uint64(c.number)) }

// rank is the number of the last event that moved it in the eviction order.
func (o object) rank() uint64 { return o.marks.get(rankAt, rankBits) }

func (o object) setRank(event uint64) { o.marks.put(rankAt, rankBits, event) }

func (o object) dataType() model.DataType {
	return model.DataType(o.marks.get(typeAt, typeBits))
}

func (o object) setDataType(t model.DataType) {
	o.marks.put(typeAt, typeBits, uint64(t))
}

func (o object) size() uint64 {
	if o.size32 == wide {
		return o.rest().size
	}
	return uint64(o.size32)
}

func (o object) setSize(n uint64) {
	if n >= wide {
		o.size32, o.extra().size = wide, n
		return
	}
	o.size32 = uint32(n)
}

func (o object) checksum() model.Checksum {
	kind := o.marks.get(kindAt, kindBits)
	if kind == wideKind {
		return o.rest().sum
	}
	return model.Checksum{Kind: model.ChecksumKind(kind), Value: uint64(o.sum32)}
}

func (o object) setChecksum(c model.Checksum) {
	kind := uint64(c.Kind)
	if kind >= wideKind || c.Value > math.MaxUint32 {
		kind, o.extra().sum = wideKind, c
	}
	o.sum32 = uint32(c.Value)
	o.marks.put(kindAt, kindBits, kind)
}

// grains are the checksums of its grains, nil for none.
func (o object) grains() []uint32 {
	if m := o.rest(); m != nil {
		return m.grains
	}
	return nil
}

// setGrains sets them, as they fit the object (see model.GrainsFit).
func (o object) setGrains(grains []uint32) {
	if len(grains) > 0 {
		o.extra().grains = grains
	} else if m := o.rest(); m != nil {
		m.grains = nil
	}
}

// probe is until when a lookup protects it, zero where none does.
func (o object) probe() lease.Instant {
	if o.probeMS == 0 {
		return 0
	}
	return o.since.Add(time.Duration(o.probeMS) * time.Millisecond)
}

// setProbe extends that. It ends no later than 49 days after the put.
func (o object) setProbe(until lease.Instant) {
	if d := until.Sub(o.since); d > 0 {
		o.probeMS = max(o.probeMS, uint32(min((d+time.Millisecond-1)/time.Millisecond, math.MaxUint32)))
	}
}

// pair is what several returns for a copy in memory and one on a storage tier.
type pair struct {
	copies  [2]replica
	extents [2]segments.Extent
}

// several returns the copies, nil where there is one in one piece. They may be no part of the object: what changes them spreads
// them first.
func (o object) several() []replica {
	m := o.beside()
	switch {
	case m == nil:
		return nil
	case m.rest != nil && m.rest.copies != nil:
		return m.rest.copies
	case m.seg == nil:
		return nil
	}
	buf := new(pair) // It points to itself, so it cannot be on a caller's stack.
	buf.extents[0] = segments.Extent{Seg: o.segment(), Offset: o.offset, Size: o.size(), Put: ledger.Put(o.id)}
	buf.extents[1] = segments.Extent{Seg: m.seg, Offset: m.offset, Size: o.size(), Put: ledger.Put(m.id)}
	buf.copies[0] = replica{id: o.id, parts: buf.extents[:1:1]}
	buf.copies[1] = replica{id: m.id, parts: buf.extents[1:]}
	return buf.copies[:]
}

// spread makes the copies those of extra.
func (o object) spread() *extra {
	if m := o.rest(); m != nil && m.copies != nil {
		return m
	}
	put, copies := o.put(), o.several()
	if copies == nil {
		copies = []replica{{id: o.id, parts: o.extents(nil)}}
	}
	m := o.extra()
	m.copies, m.put = copies, put
	o.lie(0, nil, 0)
	o.setBeside(beside{rest: m})
	return m
}

// fold is the counterpart of spread where few bytes hold the copies of a complete object: one in one piece, or one in memory and
// one on a storage tier.
func (o object) fold() {
	m := o.rest()
	if m == nil || !o.has(complete) || m.task != nil || len(m.copies) == 0 || len(m.copies) > 2 ||
		slices.ContainsFunc(m.copies, func(r replica) bool { return r.target || len(r.parts) > 1 }) {
		return
	}
	first, b := m.copies[0], beside{rest: m}
	if len(m.copies) == 2 {
		second := m.copies[1]
		if first.onTier() {
			first, second = second, first
		}
		if first.onTier() || !second.onTier() || first.id != m.put {
			return
		}
		b.seg, b.id, b.offset = second.parts[0].Seg, second.id, second.parts[0].Offset
	} else if first.id != m.put {
		b.id = m.put
	}
	o.lie(first.id, first.parts[0].Seg, first.parts[0].Offset)
	m.copies, m.put = nil, 0
	if m.key == "" && m.size == 0 && m.sum == (model.Checksum{}) && m.grains == nil && m.group == nil && m.pinEnd == 0 && m.pinTTL == 0 {
		b.rest = nil
	}
	o.setBeside(b)
}

// put is the number of the put that wrote it: the ID of the first copy that its writer was
// told of.
func (o object) put() uint64 {
	switch m := o.beside(); {
	case m == nil:
		return o.id
	case m.rest != nil && m.rest.copies != nil:
		return m.rest.put
	case m.seg == nil && m.id != 0:
		return m.id
	}
	return o.id
}

// alive reports whether a copy is left. A segment that was unmounted takes its copies
// with it at once, whenever the sweep comes by.
func (o object) alive() bool { return o.readable(0) }

// readable is alive, and whether the master may let readers rely on a copy at an instant.
func (o object) readable(at journal.Instant) bool {
	copies := o.several()
	if copies == nil {
		return o.segment().Readable(at)
	}
	for i := range copies {
		if !copies[i].target && copies[i].readable(at) {
			return true
		}
	}
	return false
}

// behind reports whether all of the object's memory lies on nodes that are behind with their ledgers, so that none of it would
// be free.
func (o object) behind() bool {
	copies := o.several()
	if copies == nil {
		return o.segment().Ledger.Behind()
	}
	for i := range copies {
		if r := &copies[i]; !r.target && !r.onTier() && !r.behind() {
			return false
		}
	}
	return true
}

// footprint is what the object occupies of memory, over all copies.
func (o object) footprint() uint64 {
	copies := o.several()
	if copies == nil {
		if o.segment().OnTier() {
			return 0
		}
		return o.size()
	}
	n := uint64(0)
	for i := range copies {
		n += copies[i].footprint(o)
	}
	return n
}

// inMemory reports whether a copy lies in memory. Targets of a copy in progress do not count.
func (o object) inMemory() bool {
	copies := o.several()
	if copies == nil {
		return !o.segment().OnTier()
	}
	return slices.ContainsFunc(copies, func(r replica) bool { return !r.target && !r.onTier() })
}

// onTiers reports whether a copy lies in a storage tier. Targets of a copy in progress do not count.
func (o object) onTiers() bool {
	copies := o.several()
	if copies == nil {
		return o.segment().OnTier()
	}
	return slices.ContainsFunc(copies, func(r replica) bool { return !r.target && r.onTier() })
}

// stored reports whether a copy in a storage tier can be read.
func (o object) stored() bool {
	return slices.ContainsFunc(o.several(), func(r replica) bool { return !r.target && r.onTier() && r.alive() })
}

func (o object) extents(dst []segments.Extent) []segments.Extent {
	copies := o.several()
	if copies == nil {
		return append(dst, segments.Extent{Seg: o.segment(), Offset: o.offset, Size: o.size(), Put: ledger.Put(o.id)})
	}
	for i := range copies {
		dst = append(dst, copies[i].parts...)
	}
	return dst
}

func (o object) leaseEnd() lease.Instant {
	if m := o.rest(); m != nil && m.group != nil {
		return max(o.lease, lease.Instant(m.group.lease.Load()))
	}
	return o.lease
}

func (o object) probeEnd() lease.Instant {
	if m := o.rest(); m != nil && m.group != nil {
		return max(o.probe(), lease.Instant(m.group.probe.Load()))
	}
	return o.probe()
}

func (o object) copying() bool { m := o.rest(); return m != nil && m.task != nil }

// mounted reports whether a copy is there, also where its segment is absent.
func (o object) mounted() bool {
	copies := o.several()
	if copies == nil {
		return o.segment().Alive()
	}
	return slices.ContainsFunc(copies, func(r replica) bool { return !r.target && r.mounted() })
}

// describe appends the copies that are alive, without the targets of a copy in progress. With an instant other than 0
// it leaves out those that readers may not rely on then.
func (o object) describe(dst []model.Replica, status model.ReplicaStatus, at journal.Instant) []model.Replica {
	copies := o.several()
	if copies == nil {
		if o.segment().Readable(at) {
			dst = append(dst, model.Replica{ID: o.id, Status: status, Part: partOf(o.segment(), o.offset, o.size())})
		}
		return dst
	}
	for i := range copies {
		if r := &copies[i]; !r.target && r.readable(at) {
			dst = append(dst, r.describe(status))
		}
	}
	return dst
}

// plain reports whether upstream's clients can read one of the copies. at is that of describe.
func (o object) plain(at journal.Instant) bool {
	copies := o.several()
	if copies == nil {
		return model.PlainProtocol(o.segment().Protocol) && o.segment().Readable(at)
	}
	return slices.ContainsFunc(copies, func(r replica) bool { return !r.target && r.plain() && r.readable(at) })
}

// plainFirst removes the copies that upstream's clients cannot read from those that describe appended behind head, and puts the
// nodes that answer first: upstream's clients read the first copy only.
func (o object) plainFirst(described []model.Replica, head int) []model.Replica {
	out := slices.DeleteFunc(described[head:], func(r model.Replica) bool { return !r.Plain() })
	if len(out) > 1 {
		weights := make(map[uint64]float64, len(out))
		for _, r := range o.several() {
			weights[r.id] = r.parts[0].Seg.Weight()
		}
		slices.SortStableFunc(out, func(a, b model.Replica) int { return cmp.Compare(weights[b.ID], weights[a.ID]) })
	}
	return described[:head+len(out)]
}

func partOf(s *segments.Segment, offset, size uint64) model.Part {
	return model.Part{SegmentID: s.ID, Segment: s.Name, Endpoint: s.Endpoint, Protocol: s.Protocol, Address: s.Base + offset, Size: size}
}

// Handle names an object that a batch call dealt with, for the next item of the batch.
type Handle = evict.ID
