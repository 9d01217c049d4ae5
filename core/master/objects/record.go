package objects

import (
	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/model"
)

// This writes what becomes of an object into the ledgers of the segments in which it lies. It happens with the
// shard locked, so that the records of one put are in their order. Pool.Free and Pool.Hold of package space write
// the records of memory that an object leaves.

// recordBegin records that a put got memory.
func (o object) recordBegin(key string, writer model.ClientID) {
	if copies := o.several(); copies != nil {
		for i := range copies {
			o.recordCopy(key, &copies[i], writer, 0)
		}
		return
	}
	seg := o.segment()
	if seg.Ledger == nil {
		return
	}
	extents := [1]ledger.Extent{{Offset: o.offset, Length: o.size()}}
	d := o.describeLedger(key, writer, 0)
	d.Parts, d.Extents = 1, extents[:]
	seg.Ledger.Begin(ledger.Put(o.id), &d)
}

// recordCopy records that one copy got memory.
func (o object) recordCopy(key string, r *replica, writer model.ClientID, flags ledger.Flags) {
	d := o.describeLedger(key, writer, flags)
	d.Parts = uint32(len(r.parts))
	for i, p := range r.parts {
		extents := [1]ledger.Extent{{Offset: p.Offset, Length: p.Size}}
		d.Part, d.Extents = uint32(i), extents[:]
		p.Seg.Ledger.Begin(p.Put, &d)
	}
}

func (o object) describeLedger(key string, writer model.ClientID, flags ledger.Flags) ledger.Object {
	if o.has(hardPin) {
		flags |= ledger.HardPin
	}
	return ledger.Object{
		Name: key, Size: o.size(), Value: ledger.Put(o.put()), Flags: flags, Type: uint8(o.dataType()), Group: o.group(), Writer: writer,
	}
}

// recordCommit records that an object is complete.
func (t *Table) recordCommit(o object) {
	copies := o.several()
	if copies == nil {
		o.segment().Ledger.Commit(ledger.Put(o.id), t.ending(o))
	}
	for i := range copies {
		t.commitCopy(o, &copies[i])
	}
}

// commitCopy records that a copy is complete.
func (t *Table) commitCopy(o object, r *replica) {
	for _, p := range r.parts {
		p.Seg.Ledger.Commit(p.Put, t.ending(o))
	}
}

func (t *Table) ending(o object) ledger.Ending {
	e := ledger.Ending{Checksum: o.checksum(), Grains: o.grains()}
	if o.rest() != nil && o.rest().pinEnd > 0 && t.Wall != nil {
		e.SoftUntil = uint64(t.Wall(o.rest().pinEnd).UnixMilli())
	}
	return e
}
