package objects

import (
	"slices"
	"sync"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
)

// copying is a copy or move of an object that is in progress.
type copying struct {
	kind    model.CopyKind
	client  model.ClientID
	source  uint64 // ID of the copy that is read
	targets int    // how many copies it makes
	started lease.Instant
	// promotes says that the source lies on a storage tier, and the targets in memory.
	promotes bool
}

// Source is what there is to copy.
type Source struct {
	ID   uint64
	Size uint64
	// Own are the names of the segments on which this copy lies, several where it is striped;
	// Others those of the object's other copies.
	Own, Others []string
	// Plain says that upstream's clients can read this copy.
	Plain bool
}

// CopySource finds the copy of an object that lies on a segment, or any with "". Missing,
// Unfinished, Copying, NoReplica.
func (t *Table) CopySource(key, segment string) (Source, Outcome) {
	_, s, o := t.open(key)
	defer s.mu.Unlock()
	if out := copyable(o); out != Done {
		return Source{}, out
	}
	src := Source{Size: o.size()}
	for _, r := range o.describe(nil, model.ReplicaComplete, 0) {
		var names []string
		for _, p := range r.Parts {
			names = append(names, p.Segment)
		}
		if src.ID == 0 && (segment == "" || slices.Contains(names, segment)) {
			src.ID, src.Own, src.Plain = r.ID, names, r.Plain()
		} else {
			src.Others = append(src.Others, names...)
		}
	}
	if src.ID == 0 {
		return Source{}, NoReplica
	}
	return src, Done
}

func copyable(o object) Outcome {
	switch {
	case o.none() || !o.alive():
		return Missing
	case !o.has(complete):
		return Unfinished
	case o.copying():
		return Copying
	}
	return Done
}

// CopyBegin enters the targets of a copy or move, which may be none, and protects the
// source until CopyEnd. As CopySource; SourceGone; CopyLimit; Missing also when a target's segment has
// been unmounted; NoReplica for a move without a target when no other copy is left to
// stay. After any outcome but Done the caller still owns the targets.
func (t *Table) CopyBegin(key string, client Client, kind model.CopyKind, source uint64, targets [][]segments.Extent, now lease.Instant) (model.CopyPlan, Outcome) {
	_, s, o := t.open(key)
	defer s.mu.Unlock()
	if out := copyable(o); out != Done {
		return model.CopyPlan{}, out
	}
	m := o.spread()
	defer o.fold()
	at := slices.IndexFunc(m.copies, func(r replica) bool { return r.id == source && r.alive() })
	switch {
	case at < 0:
		return model.CopyPlan{}, SourceGone
	case kind == model.MoveObject && len(targets) == 0 && !o.outlives(source):
		return model.CopyPlan{}, NoReplica
	}
	plan := model.CopyPlan{Source: m.copies[at].describe(model.ReplicaComplete), Checksum: o.checksum()}
	for _, parts := range targets {
		if r := (replica{parts: parts}); !r.alive() {
			return model.CopyPlan{}, Missing
		}
	}
	if !t.copiers.enter(client.id) {
		return model.CopyPlan{}, CopyLimit
	}
	for _, parts := range targets {
		r := replica{target: true, parts: parts}
		t.number(&r)
		o.recordCopy(key, &r, client.id, ledger.Copied)
		m.copies = append(m.copies, r)
		plan.Targets = append(plan.Targets, r.describe(model.ReplicaProcessing))
	}
	m.task = &copying{kind: kind, client: client.id, source: source, targets: len(targets), started: now}
	m.task.promotes = kind == model.CopyObject && len(targets) > 0 && plan.Source.OnTier() && !o.saving()
	if m.task.promotes {
		t.promotes.Add(1)
	}
	s.copying[o.slot()] = struct{}{}
	return plan, Done
}

// task returns the copy that a client means. Missing, NotCopying, Foreign, WrongKind.
func (o object) task(client Client, kind model.CopyKind) Outcome {
	switch {
	case o.none() || !o.alive():
		return Missing
	case !o.copying():
		return NotCopying
	case o.rest().task.client != client.id:
		return Foreign
	case o.rest().task.kind != kind:
		return WrongKind
	}
	return Done
}

// CopyEnd makes the targets readable; the source of a move goes into the bin. Missing,
// NotCopying, Foreign, WrongKind; SourceGone when the source or a target is not there any
// more, and then the copy is given up.
func (t *Table) CopyEnd(key string, client Client, kind model.CopyKind, bin *Bin) Outcome {
	i, s, o := t.open(key)
	defer s.mu.Unlock()
	if out := o.task(client, kind); out != Done {
		return out
	}
	m := o.rest()
	source, found, whole := m.task.source, false, 0
	for j := range m.copies {
		found = found || m.copies[j].id == source
		if m.copies[j].target && m.copies[j].alive() {
			whole++
		}
	}
	move := kind == model.MoveObject
	// A target whose segment went is dead, or was swept already. So may be the copy that a
	// move without a target was to leave.
	if !found || whole < m.task.targets || move && whole == 0 && !o.outlives(source) {
		t.dropTask(s, o, SourceGone, bin)
		return SourceGone
	}
	t.endTask(s, o, Done)
	was := o.listed()
	for j := range m.copies {
		if m.copies[j].target {
			m.copies[j].target = false
			t.commitCopy(o, &m.copies[j])
		}
	}
	if move {
		t.cut(s, o, bin, func(r replica) bool { return r.id == source })
	}
	t.relist(i, s, o, was)
	return Done
}

// outlives reports whether another copy than this one can be read.
func (o object) outlives(id uint64) bool {
	return slices.ContainsFunc(o.several(), func(r replica) bool { return r.id != id && !r.target && r.alive() })
}

// CopyRevoke gives a copy up; its targets go into the bin. Missing, NotCopying, Foreign,
// WrongKind.
func (t *Table) CopyRevoke(key string, client Client, kind model.CopyKind, bin *Bin) Outcome {
	_, s, o := t.open(key)
	defer s.mu.Unlock()
	out := o.task(client, kind)
	if out == Done {
		t.dropTask(s, o, NotCopying, bin)
	}
	return out
}

// saving reports whether an object is being copied to storage tiers only. Such a copy gives way to what would change the
// object: no memory is written for it, and a tier forgets the record of a copy that is gone.
func (o object) saving() bool {
	return !o.none() && o.copying() && o.rest().task.kind == model.CopyObject && o.rest().task.targets > 0 &&
		!slices.ContainsFunc(o.rest().copies, func(r replica) bool { return r.target && !r.onTier() })
}

// yield gives up a copy of an object that gives way.
func (t *Table) yield(s *shard, o object, bin *Bin) {
	if o.saving() {
		t.dropTask(s, o, Missing, bin)
	}
}

func (t *Table) dropTask(s *shard, o object, why Outcome, bin *Bin) {
	t.cut(s, o, bin, func(r replica) bool { return r.target })
	t.endTask(s, o, why)
	o.fold()
}

// endTask notes that no copy of an object is in progress any more: Done; NotCopying if its client gave it up, Unfinished if the
// table did, SourceGone or Missing if what it copies went.
func (t *Table) endTask(s *shard, o object, how Outcome) {
	if !o.copying() {
		return
	}
	if o.rest().task.promotes {
		t.promotes.Add(-1)
		if t.Promoted != nil {
			t.Promoted(how, o.size())
		}
	}
	t.copiers.leave(o.rest().task.client)
	o.rest().task = nil
	delete(s.copying, o.slot())
}

// AbandonCopies gives up every copy that match selects and returns how many. match runs
// under a lock and must be quick.
func (t *Table) AbandonCopies(match func(client model.ClientID, started lease.Instant) bool, bin *Bin) int {
	n := 0
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for slot := range s.copying {
			if o := s.slots.at(slot); match(o.rest().task.client, o.rest().task.started) {
				t.dropTask(s, o, Unfinished, bin)
				n++
			}
		}
		s.mu.Unlock()
	}
	return n
}

// MaxCopies is how many copies and moves one client may have in progress. Each keeps an object
// from being evicted or removed.
const MaxCopies = 1024

// copiers counts the copies of each client that are in progress.
type copiers struct {
	mu    *sync.Mutex
	count map[model.ClientID]int
}

func newCopiers() copiers { return copiers{mu: &sync.Mutex{}, count: map[model.ClientID]int{}} }

// enter counts one more, unless there are too many.
func (c *copiers) enter(id model.ClientID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count[id] >= MaxCopies {
		return false
	}
	c.count[id]++
	return true
}

func (c *copiers) leave(id model.ClientID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count[id]--; c.count[id] <= 0 {
		delete(c.count, id)
	}
}
