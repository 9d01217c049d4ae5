package objects

import (
	"cmp"
	"slices"

	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
)

// replaces says whether an upsert may displace an entry: Copying, WrongGroup. One without a group
// leaves an object in its group.
func replaces(o object, group string) Outcome {
	switch {
	case o.none() || !o.alive():
		return Done
	case o.copying() && !o.saving():
		return Copying
	case group != "" && group != o.group():
		return WrongGroup
	}
	return Done
}

func (o object) group() string {
	if o.rest() == nil || o.rest().group == nil {
		return ""
	}
	return o.rest().group.name
}

// inherit takes over what an upsert leaves open: a hard pin stays, and so do the group and the rest
// of a soft pin unless the upsert says otherwise.
func inherit(set Settings, old object, now lease.Instant) (Settings, lease.Instant) {
	if old.none() || !old.alive() {
		return set, 0
	}
	set.HardPin = set.HardPin || old.has(hardPin)
	set.Group = cmp.Or(set.Group, old.group())
	if set.SoftPin == model.SoftPinPreserve && old.rest() != nil && old.rest().pinEnd > now {
		return set, old.rest().pinEnd
	}
	return set, 0
}

// Overwrite begins an upsert on the memory that the object has, and appends its copies to
// dst. Until it is finished the object is not readable. n gets the group of the object. NeedsSpace when there is no such
// object, a copy of it is dead or its node silent, its size or number of copies differs, its copies are not Plain as asked, or a
// reader may be reading it: then memory of its own is needed, and Put with Replace. Copying, WrongGroup.
func (t *Table) Overwrite(n *NewObject, copies int, now lease.Instant, dst []model.Replica) ([]model.Replica, Outcome) {
	i, s, o := t.open(n.Key)
	defer s.mu.Unlock()
	if out := replaces(o, n.Settings.Group); out != Done {
		return dst, out
	}
	if o.none() || !o.alive() || !o.has(complete) || o.size() != n.Size || o.leaseEnd() > now || o.copying() || o.intact() != copies || !o.awake() || n.Plain && !o.allPlain() {
		return dst, NeedsSpace
	}
	set, pinEnd := inherit(n.Settings, o, now)
	t.withdraw(i, s, o, true)
	t.count.Add(-1) // begin counts it again
	t.regenerate(i, o)
	o.since, o.lease, o.probeMS = now, 0, 0
	o.setCreator(n.Client)
	o.setDataType(set.DataType)
	o.setChecksum(model.Checksum{})
	if set.HardPin {
		o.set(hardPin)
	}
	if m := o.rest(); m != nil {
		m.pinEnd, m.pinTTL = 0, 0
	}
	t.renumber(o)
	n.Settings.Group, set.Group = set.Group, "" // it is a member already
	t.prepare(i, o, set, pinEnd)
	return t.begin(s, o, n, dst), Done
}

// intact is how many copies an object has of which at least one is alive, 0 when another
// one is dead or lies in a storage tier: then the object is placed anew.
func (o object) intact() int {
	copies := o.several()
	if copies == nil {
		if o.segment().OnTier() {
			return 0
		}
		return 1
	}
	for i := range copies {
		if !copies[i].alive() || copies[i].onTier() {
			return 0
		}
	}
	return len(copies)
}

// awake reports whether no node of the object is silent for whose ledger a put would wait in vain.
func (o object) awake() bool {
	silent := func(s *segments.Segment) bool { return s.Ledger != nil && s.Weight() == 0 }
	copies := o.several()
	if copies == nil {
		return !silent(o.segment())
	}
	return !slices.ContainsFunc(copies, func(r replica) bool {
		return slices.ContainsFunc(r.parts, func(e segments.Extent) bool { return silent(e.Seg) })
	})
}

// allPlain reports whether upstream's clients can write all copies.
func (o object) allPlain() bool {
	copies := o.several()
	if copies == nil {
		return model.PlainProtocol(o.segment().Protocol)
	}
	return !slices.ContainsFunc(copies, func(r replica) bool { return !r.plain() })
}

// renumber gives the copies new IDs, since their bytes will be others.
func (t *Table) renumber(o object) {
	for _, e := range o.extents(nil) {
		e.Seg.Ledger.Gone(e.Put)
	}
	copies := o.several()
	if copies == nil {
		o.id = t.copies.Add(1)
		if b := o.beside(); b != nil {
			o.setBeside(beside{rest: b.rest}) // without the number of the last put
		}
	}
	for i := range copies {
		t.number(&copies[i])
	}
}

// regenerate gives an object a new ID: an operation that was meant for the old one, such as an
// eviction, is not meant for the new value.
func (t *Table) regenerate(i int, o object) {
	old := idOf(i, o)
	o.generation++
	if o.rest() != nil && o.rest().group != nil {
		t.groups.rename(o.rest().group, old, idOf(i, o))
	}
}
