package objects

import (
	"github.com/mooncake-go/mooncake/core/master/journal"
	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// Grant is what a read or a lookup does to an object.
type Grant struct {
	// Lease extends the readers' protection to this instant, Probe that of lookups; zero
	// grants none.
	Lease, Probe lease.Instant
	// Reader is noted as the last reader where Lease is granted.
	Reader Client
	// Rank counts it as an access in the eviction order.
	Rank bool
	// Parent is the page before this one in the batch, 0 where unknown.
	Parent evict.ID
	// At is when the master looked whether the nodes of the copies obey it; copies of others are passed over. 0 passes
	// none over.
	At journal.Instant
	// Grains asks for the checksums of grains.
	Grains bool
	// Plain passes over the copies that upstream's clients cannot read, and orders the others by the weights of their segments.
	Plain bool
}

// Exist reports whether a key is readable, applies the grant if so, and names the object.
func (t *Table) Exist(key string, g Grant) (Handle, bool) {
	i, s, o := t.open(key)
	defer s.mu.Unlock()
	if o.none() || !o.has(complete) || !o.readable(g.At) || g.Plain && !o.plain(g.At) {
		return 0, false
	}
	t.grant(i, s, o, g)
	return idOf(i, o), true
}

// Read answers with an object and applies the grant. The copies are appended to buf and
// the answer points into the result. Missing, Unfinished or NotPlain.
func (t *Table) Read(key string, g Grant, buf []model.Replica) (model.Object, []model.Replica, Handle, Outcome) {
	i, s, o := t.open(key)
	defer s.mu.Unlock()
	if o.none() {
		return model.Object{}, buf, 0, Missing
	}
	if !o.has(complete) {
		if o.alive() {
			return model.Object{}, buf, 0, Unfinished
		}
		return model.Object{}, buf, 0, Missing
	}
	head := len(buf)
	buf = o.describe(buf, model.ReplicaComplete, g.At)
	if len(buf) == head {
		return model.Object{}, buf, 0, Missing
	}
	if g.Plain {
		if buf = o.plainFirst(buf, head); len(buf) == head {
			return model.Object{}, buf, 0, NotPlain
		}
	}
	t.grant(i, s, o, g)
	out := model.Object{Size: o.size(), Checksum: o.checksum(), Replicas: buf[head:len(buf):len(buf)]}
	if g.Grains {
		out.Grains = o.grains()
	}
	return out, buf, idOf(i, o), Done
}

func (t *Table) grant(i int, s *shard, o object, g Grant) {
	if g.Lease > 0 {
		o.lease = max(o.lease, g.Lease)
		o.setReader(g.Reader)
	}
	o.setProbe(g.Probe)
	if o.rest() != nil && o.rest().group != nil {
		o.rest().group.extend(g.Lease, g.Probe)
	}
	if g.Rank && o.listed() {
		o.setRank(t.note(i, s, evict.Event{Op: evict.Access, ID: idOf(i, o), Parent: g.Parent}))
	}
}

// View is an object as it is now.
type View struct {
	Size     uint64
	Checksum model.Checksum
	DataType model.DataType
	Group    string
	Creator  model.ClientID
	Reader   model.ClientID
	Complete bool
	HardPin  bool
	Copying  bool
	// Since is when the put began, or, of a complete object, ended.
	Since lease.Instant
	// Lease, Probe and PinEnd are until when each protects it.
	Lease, Probe, PinEnd lease.Instant
	Replicas             []model.Replica
}

// Look returns what the table knows of a key and changes nothing.
func (t *Table) Look(key string) (View, bool) {
	_, s, o := t.open(key)
	defer s.mu.Unlock()
	if o.none() || !o.alive() {
		return View{}, false
	}
	status := model.ReplicaProcessing
	if o.has(complete) {
		status = model.ReplicaComplete
	}
	v := View{
		Size: o.size(), Checksum: o.checksum(), DataType: o.dataType(),
		Group: o.group(), Creator: t.clients.id(o.creator()), Reader: t.clients.id(o.reader()),
		Complete: o.has(complete), HardPin: o.has(hardPin), Copying: o.copying(),
		Since: o.since, Lease: o.leaseEnd(), Probe: o.probeEnd(), Replicas: o.describe(nil, status, 0),
	}
	if o.has(softPin) {
		v.PinEnd = o.rest().pinEnd
	}
	return v, true
}

// Absent returns the size of a readable object whose copies are there, none of them on a node that the master hears, and
// since when the first of these nodes is silent.
func (t *Table) Absent(key string) (size uint64, since lease.Instant, ok bool) {
	_, s, o := t.open(key)
	defer s.mu.Unlock()
	if o.none() || !o.has(complete) || o.alive() || !o.mounted() {
		return 0, 0, false
	}
	for _, e := range o.extents(nil) {
		if at := e.Seg.AbsentSince(); at > 0 && (since == 0 || at < since) {
			since = at
		}
	}
	return o.size(), since, true
}

// Located is an object with a copy on a segment.
type Located struct {
	Key  string
	Size uint64
	// Out says whether it could be moved now: Done, Unfinished, Copying, Leased, Probed.
	Out Outcome
}

// On appends the objects of one step of a walk that have a copy on segments of that name.
func (t *Table) On(at Cursor, segment string, now lease.Instant, dst []Located) ([]Located, Cursor) {
	next := t.walk(at, func(_ int, _ *shard, o object) {
		if !o.on(segment) || !o.alive() {
			return
		}
		l := Located{Key: o.key(), Size: o.size()}
		switch {
		case !o.has(complete):
			l.Out = Unfinished
		case o.copying():
			l.Out = Copying
		case o.leaseEnd() > now:
			l.Out = Leased
		case o.probeEnd() > now:
			l.Out = Probed
		}
		dst = append(dst, l)
	})
	return dst, next
}

func (o object) on(segment string) bool {
	copies := o.several()
	if copies == nil {
		return o.segment().Name == segment
	}
	for i := range copies {
		if copies[i].on(segment) {
			return true
		}
	}
	return false
}
