package objects

import (
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// NewObject describes an object whose put begins.
type NewObject struct {
	Key    string
	Size   uint64
	Client Client
	// Copies are the extents of each copy, in the order of the bytes.
	Copies   [][]segments.Extent
	Settings Settings
	// Replace displaces a complete object and any unfinished one. Settings that are not set
	// are inherited from it.
	Replace bool
	// Plain says that the copies must be such as upstream's clients can write.
	Plain bool
}

// Settings are the properties that a put gives an object in addition to its bytes.
type Settings struct {
	HardPin  bool
	SoftPin  model.SoftPinAction
	SoftTTL  time.Duration // with SoftPinEnable; 0 is no pin
	Group    string        // of all tenants' groups; empty is none
	DataType model.DataType
}

// CanPut reports whether a put of the key may begin. It returns Exists while the object is
// readable, or unfinished and younger than patience. It is a hint before memory is allocated; Put
// decides.
//
// A put of an existing object counts as a use of it: a client needed the page, had lost the one
// before it, and computed both again. parent is the page before it, 0 if unknown. The result names
// the existing object.
func (t *Table) CanPut(key string, now lease.Instant, patience time.Duration, parent evict.ID) (Handle, Outcome) {
	i, s, o := t.open(key)
	defer s.mu.Unlock()
	out := blocks(o, now, patience)
	if out != Exists || !o.has(complete) {
		return 0, out
	}
	t.grant(i, s, o, Grant{Rank: true, Parent: parent})
	return idOf(i, o), out
}

// blocks reports whether an entry prevents a put.
func blocks(o object, now lease.Instant, patience time.Duration) Outcome {
	if o.none() || !o.alive() || (!o.has(complete) && now.Sub(o.since) > patience) {
		return Done
	}
	return Exists
}

// Put enters an object as being written and appends its copies to dst. It displaces an entry that
// CanPut permits to displace, or with n.Replace one that CanReplace permits, and puts it into the
// bin. Other outcomes are Missing if a segment of n.Copies has been unmounted meanwhile, Exists,
// GroupFull, and those of CanReplace. After any outcome but Done the caller still owns n.Copies.
func (t *Table) Put(n *NewObject, now lease.Instant, patience time.Duration, dst []model.Replica, bin *Bin) ([]model.Replica, Outcome) {
	i, s, old := t.open(n.Key)
	defer s.mu.Unlock()
	set, pinEnd := n.Settings, lease.Instant(0)
	if n.Replace {
		if out := replaces(old, set.Group); out != Done {
			return dst, out
		}
		set, pinEnd = inherit(set, old, now)
	} else if out := blocks(old, now, patience); out != Done {
		return dst, out
	}
	// Checked under the lock: a segment that dies later is swept later. One that died earlier may
	// have been swept already, and the new copies would stay.
	if !allAlive(n.Copies) {
		return dst, Missing
	}
	if (old.none() || old.group() != set.Group) && t.groups.full(set.Group) {
		return dst, GroupFull
	}
	if !old.none() {
		t.yield(s, old, bin)
		bin.whole(old, s.unfinished[old.slot()])
		t.unlink(i, s, old, true)
	}
	o := s.slots.add(n.Key, t.Print(n.Key))
	o.since = now
	o.setCreator(n.Client)
	o.setSize(n.Size)
	o.setDataType(set.DataType)
	t.place(o, n.Copies)
	if set.HardPin {
		o.set(hardPin)
	}
	t.prepare(i, o, set, pinEnd)
	return t.begin(s, o, n, dst), Done
}

// prepare notes the settings that take effect when the object is complete.
func (t *Table) prepare(i int, o object, set Settings, pinEnd lease.Instant) {
	if set.Group != "" {
		o.extra().group = t.groups.join(set.Group, idOf(i, o))
	}
	switch {
	case pinEnd > 0:
		o.extra().pinEnd = pinEnd
	case set.SoftPin == model.SoftPinEnable && set.SoftTTL > 0:
		o.extra().pinTTL = int64(set.SoftTTL)
	}
}

// place sets the copies of a new object and numbers them.
func (t *Table) place(o object, copies [][]segments.Extent) {
	if len(copies) == 1 && len(copies[0]) == 1 {
		o.lie(t.copies.Add(1), copies[0][0].Seg, copies[0][0].Offset)
		return
	}
	m := o.extra()
	m.copies = make([]replica, len(copies))
	for i, parts := range copies {
		m.copies[i].parts = parts
		t.number(&m.copies[i])
	}
}

// number numbers a copy and its parts: the first part has the copy's number, and the others follow.
func (t *Table) number(r *replica) {
	n := uint64(len(r.parts))
	r.id = t.copies.Add(n) - n + 1
	for i := range r.parts {
		r.parts[i].Put = ledger.Put(r.id) + ledger.Put(i)
	}
}

// begin enters an object as being written. The caller holds the lock of the shard.
func (t *Table) begin(s *shard, o object, n *NewObject, dst []model.Replica) []model.Replica {
	head := len(dst)
	dst = o.describe(dst, model.ReplicaProcessing, 0)
	if o.several() != nil && len(dst) > head {
		o.rest().put = dst[head].ID
	}
	t.count.Add(1)
	t.written(s, o, n.Client)
	o.recordBegin(n.Key, n.Client.id)
	return dst
}

func allAlive(copies [][]segments.Extent) bool {
	for _, parts := range copies {
		if r := (replica{parts: parts}); !r.alive() {
			return false
		}
	}
	return true
}

// Finish makes an object readable; put is as in model.EndItem. A repetition returns Done too. Other
// outcomes are Missing, Foreign, Superseded and Misfit. parent is the page before it, 0 if unknown.
// grains are the checksums of its grains, which the table copies. took is the duration of the put, 0 for
// a repetition.
func (t *Table) Finish(key string, put uint64, client Client, sum model.Checksum, now lease.Instant, parent evict.ID, grains ...uint32) (id Handle, took time.Duration, out Outcome) {
	i, s, o := t.open(key)
	defer s.mu.Unlock()
	if out := s.owned(o, put, client); out != Done {
		if out == Written {
			return idOf(i, o), 0, Done
		}
		return 0, 0, out
	}
	if !model.GrainsFit(grains, o.size(), sum) {
		return 0, 0, Misfit
	}
	took = now.Sub(o.since)
	o.setChecksum(sum)
	o.setGrains(slices.Clone(grains))
	t.finish(i, s, o, now, parent)
	t.recordCommit(o)
	if sum.Kind == model.ChecksumNone {
		o.setChecksum(model.Checksum{}) // without ledger.Unacknowledged, which is for the node of the put alone
	}
	return idOf(i, o), took, Done
}

// finish makes an unfinished object readable. The caller holds the lock of the shard.
func (t *Table) finish(i int, s *shard, o object, now lease.Instant, parent evict.ID) {
	t.unwritten(s, o)
	t.complete(i, s, o, now, parent)
}

// complete makes an object readable that is not among those being written. The caller holds the lock of the shard.
func (t *Table) complete(i int, s *shard, o object, now lease.Instant, parent evict.ID) {
	o.since, o.probeMS = now, 0
	if m := o.rest(); m != nil {
		if m.pinTTL > 0 {
			m.pinEnd, m.pinTTL = now.Add(time.Duration(m.pinTTL)), 0
		}
		if m.pinEnd > now && !o.has(hardPin) {
			o.set(softPin)
			if len(s.soft) == 0 || m.pinEnd < s.firstPin {
				s.firstPin = m.pinEnd
			}
			s.soft[o.slot()] = struct{}{}
			t.soft.Add(1)
		}
	}
	t.publish(i, s, o, parent)
}

// owned reports whether a client may end the given put of an entry: Done, or Written if the put has
// ended.
func (s *shard) owned(o object, put uint64, client Client) Outcome {
	switch {
	case o.none() || !o.alive():
		return Missing
	case !o.has(complete) && s.unfinished[o.slot()].ID != client.id:
		return Foreign
	case o.has(complete) && !client.is(o.creator()) && (o.creator() != 0 || put == 0):
		return Foreign // If the writer is not known, the number of the put decides.
	case put != 0 && put != o.put():
		return Superseded
	case o.has(complete):
		return Written
	}
	return Done
}

// Revoke abandons an unfinished put at the request of its writer, which no longer writes to it. put
// is as in model.EndItem. Other outcomes are Missing, Foreign, Written and Superseded.
func (t *Table) Revoke(key string, put uint64, client Client, bin *Bin) Outcome {
	i, s, o := t.open(key)
	defer s.mu.Unlock()
	out := s.owned(o, put, client)
	if out == Done {
		bin.whole(o, s.unfinished[o.slot()])
		t.unlink(i, s, o, true)
	}
	return out
}

// Abandon removes every unfinished put that match selects, and returns their number. match runs
// under a lock and must be quick.
func (t *Table) Abandon(match func(writer model.ClientID, started lease.Instant) bool, bin *Bin) int {
	return t.abandon(func(w model.ClientID, o object) bool { return match(w, o.since) }, bin)
}

// AbandonPast removes every unfinished put whose epoch is below the one that since has for its writer, and returns the
// number of these puts.
func (t *Table) AbandonPast(since map[model.ClientID]uint64, bin *Bin) int {
	return t.abandon(func(w model.ClientID, o object) bool { return model.PutEpoch(o.put()) < since[w] }, bin)
}

func (t *Table) abandon(match func(model.ClientID, object) bool, bin *Bin) int {
	puts := 0
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for slot, writer := range s.unfinished {
			if o := s.slots.at(slot); match(writer.ID, o) {
				bin.whole(o, s.unfinished[o.slot()])
				t.unlink(i, s, o, true)
				puts++
			}
		}
		s.mu.Unlock()
	}
	return puts
}
