package objects

import (
	"time"

	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// NewObject describes an object whose put begins.
type NewObject struct {
	Key      string
	Size     uint64
	Client   model.ClientID
	Extents  []segments.Extent
	Pinned   bool
	DataType model.DataType
}

// CanPut reports whether a put of the key may begin: Exists while it is readable, or
// unfinished and younger than patience. It is a hint before memory is asked for; Put
// decides.
//
// A put that finds the object there counts as a use of it: somebody needed the page, had
// lost the one before it, and computed both again.
func (t *Table) CanPut(key string, now lease.Instant, patience time.Duration) Outcome {
	i := t.index(key)
	s := &t.shards[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.byKey[key]
	out := blocks(o, now, patience)
	if out == Exists && o.complete {
		t.grant(i, s, o, Grant{Rank: true})
	}
	return out
}

// blocks says whether an entry stands in the way of a put.
func blocks(o *object, now lease.Instant, patience time.Duration) Outcome {
	if o == nil || !o.alive() || (!o.complete && now.Sub(o.started) > patience) {
		return Done
	}
	return Exists
}

// Put enters an object as being written and appends its copies to dst. It displaces what
// CanPut says does not stand in the way, and appends the extents of a put that is given up
// so to given. Missing when every segment of n.Extents has been unmounted meanwhile. After
// any outcome but Done the caller still owns n.Extents.
func (t *Table) Put(n NewObject, now lease.Instant, patience time.Duration, dst []model.Replica, given []Held) ([]model.Replica, []Held, Outcome) {
	i := t.index(n.Key)
	o := &object{key: n.Key, size: n.Size, client: n.Client, started: now, pinned: n.Pinned, dataType: n.DataType}
	o.places = make([]place, len(n.Extents))
	for j, e := range n.Extents {
		o.places[j] = place{id: t.copies.Add(1), seg: e.Seg, offset: e.Offset}
	}
	s := &t.shards[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.byKey[n.Key]
	if out := blocks(old, now, patience); out != Done {
		return dst, given, out
	}
	// Checked under the lock: a segment that dies after this is swept after this.
	if !o.alive() {
		return dst, given, Missing
	}
	if old != nil {
		if old.alive() {
			given = old.held(given)
		}
		t.unlink(i, s, old, true)
	}
	o.id = t.newID(i)
	put, head := o.places[0].id, len(dst)
	if dst = o.replicas(dst, model.ReplicaProcessing); len(dst) > head {
		put = dst[head].ID
	}
	t.link(s, o, put)
	return dst, given, Done
}

// Finish makes an object readable, put as in model.EndItem. Doing it twice is Done;
// Missing, Foreign, Superseded.
func (t *Table) Finish(key string, put uint64, client model.ClientID, sum model.Checksum) Outcome {
	i := t.index(key)
	s := &t.shards[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.byKey[key]
	switch {
	case o == nil || !o.alive():
		return Missing
	case o.client != client:
		return Foreign
	case o.complete:
		return Done
	case !s.unfinished[o.id].meant(put):
		return Superseded
	}
	delete(s.unfinished, o.id)
	t.writing.Add(-int64(o.footprint()))
	t.readable.Add(1)
	o.complete = true
	o.checksum, o.sumKind = sum.Value, sum.Kind
	if !o.pinned {
		o.ranked = t.note(i, s, evict.Event{Op: evict.Insert, ID: o.id, Size: o.footprint()})
	}
	return Done
}

// Revoke gives up an unfinished put at the wish of its writer, who writes no more, and
// appends its extents to dst, put as in model.EndItem. Missing, Foreign, Written, or
// Superseded.
func (t *Table) Revoke(key string, put uint64, client model.ClientID, dst []segments.Extent) ([]segments.Extent, Outcome) {
	i := t.index(key)
	s := &t.shards[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.byKey[key]
	switch {
	case o == nil || !o.alive():
		return dst, Missing
	case o.client != client:
		return dst, Foreign
	case o.complete:
		return dst, Written
	case !s.unfinished[o.id].meant(put):
		return dst, Superseded
	}
	t.unlink(i, s, o, true)
	return o.extents(dst), Done
}

// Abandon takes away every unfinished put that match selects and appends its extents to
// dst. It returns how many puts that were. match runs under a lock and must be quick.
func (t *Table) Abandon(match func(client model.ClientID, started lease.Instant) bool, dst []Held) ([]Held, int) {
	puts := 0
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for _, o := range s.unfinished {
			if match(o.client, o.started) {
				dst = o.held(dst)
				t.unlink(i, s, o.object, true)
				puts++
			}
		}
		s.mu.Unlock()
	}
	return dst, puts
}
