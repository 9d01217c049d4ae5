package objects

import (
	"slices"

	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
)

// Found is a whole replica that the ledgers of its segments have.
type Found struct {
	Key string
	// Put wrote the bytes. The replica's own number is that of its first part.
	Put      uint64
	Parts    []segments.Extent
	Size     uint64
	Writer   Client
	Settings Settings
	// Complete replicas are readable and have a checksum. The others are being written.
	Complete bool
	Checksum model.Checksum
	Grains   []uint32
	// PinEnd is when the soft pin ends, 0 for none.
	PinEnd lease.Instant
	// Object names the object that has the replica. Adopt sets it.
	Object Handle
}

// Footprint is what the replica occupies of memory, in bytes.
func (f *Found) Footprint() uint64 {
	if f.Parts[0].Seg.OnTier() {
		return 0
	}
	return f.Size
}

func (f *Found) replica() replica { return replica{id: uint64(f.Parts[0].Put), parts: f.Parts} }

// Adopt enters a replica that a ledger has. Of two values of a key the one that was put later stays. until is how long
// readers of an earlier master may rely on the replica. What makes way is in the bin. After any outcome but Done the
// caller still owns the parts: Superseded when a later value is there, Exists when the replica is there already,
// Missing when a segment went away.
func (t *Table) Adopt(f *Found, now, until lease.Instant, bin *Bin) Outcome {
	r := f.replica()
	t.NumberFrom(r.id + uint64(len(r.parts)) - 1)
	h := t.Print(f.Key)
	i, s, o := t.openAt(f.Key, h)
	defer s.mu.Unlock()
	if !r.alive() {
		return Missing
	}
	if !o.none() && o.mounted() {
		switch put := o.put(); {
		case put > f.Put:
			return Superseded
		case put == f.Put:
			return t.adoptCopy(i, s, o, f, now, until)
		}
	}
	if !o.none() {
		bin.whole(o, s.unfinished[o.slot()])
		t.unlink(i, s, o, true)
	}
	t.adoptObject(i, s, f, h, now, until)
	return Done
}

// adoptObject enters a replica as that of a new object.
func (t *Table) adoptObject(i int, s *shard, f *Found, h uint64, now, until lease.Instant) {
	o := s.slots.add(f.Key, h)
	f.Object = idOf(i, o)
	o.since = now
	o.setCreator(f.Writer)
	o.setSize(f.Size)
	o.setDataType(f.Settings.DataType)
	if r := f.replica(); len(r.parts) == 1 && r.id == f.Put {
		o.lie(r.id, r.parts[0].Seg, r.parts[0].Offset)
	} else {
		m := o.extra()
		m.copies, m.put = []replica{r}, f.Put
	}
	if f.Settings.HardPin {
		o.set(hardPin)
	}
	t.prepare(i, o, f.Settings, f.PinEnd)
	t.count.Add(1)
	o.lease = until // A master before may have ended the put without the ledger's knowledge, and have had it read.
	if !f.Complete {
		t.written(s, o, f.Writer)
		return
	}
	t.adoptComplete(i, s, o, f, now)
}

// adoptEnd makes an adopted object readable that was being written.
func (t *Table) adoptEnd(i int, s *shard, o object, f *Found, now lease.Instant) {
	t.unwritten(s, o)
	t.adoptComplete(i, s, o, f, now)
}

// adoptComplete makes an adopted object readable that is not among those being written.
func (t *Table) adoptComplete(i int, s *shard, o object, f *Found, now lease.Instant) {
	if f.Checksum.Kind != model.ChecksumNone {
		o.setChecksum(f.Checksum)
	}
	if model.GrainsFit(f.Grains, f.Size, f.Checksum) {
		o.setGrains(f.Grains)
	}
	if f.PinEnd > now {
		o.extra().pinEnd = f.PinEnd
	}
	t.complete(i, s, o, now, 0)
}

// adoptCopy enters a replica of an object that is there. A put ends in all ledgers or in none, so one that calls it
// complete speaks for the others, which get the record that they lack.
func (t *Table) adoptCopy(i int, s *shard, o object, f *Found, now, until lease.Instant) Outcome {
	r := f.replica()
	m := o.spread()
	defer o.fold()
	for j := range m.copies {
		if m.copies[j].id != r.id {
			continue
		}
		if m.copies[j].alive() {
			return Exists
		}
		m.copies = slices.Delete(m.copies, j, j+1) // Its segment was attached anew, and this is what it was.
		break
	}
	was, listed := o.has(complete), o.listed()
	if !was {
		t.regrown(s, o, int64(r.footprint(o)))
	}
	if !f.Complete && was {
		t.commitCopy(o, &r)
	}
	m.copies = append(m.copies, r)
	f.Object = idOf(i, o)
	if f.Complete && !was {
		t.adoptEnd(i, s, o, f, now)
		for j := range m.copies[:len(m.copies)-1] {
			t.commitCopy(o, &m.copies[j])
		}
	}
	o.lease = max(o.lease, until)
	if was {
		t.relist(i, s, o, listed)
	}
	return Done
}
