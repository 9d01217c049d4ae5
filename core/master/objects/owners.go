package objects

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// owners knows which objects each owner has that may be evicted, so that space can be made
// within what one owner has. It costs about 40 bytes an object, and nothing unless Own was
// called.
type owners struct {
	of func(key string) string
	mu sync.Mutex
	by map[string]*estate
}

// estate is what one owner has: its objects in no order, and the place of each.
type estate struct {
	ids []evict.ID
	at  map[evict.ID]uint32
}

// Own makes the table know objects by their owners from now on. of names the owner of a
// key; it runs under a lock. Called before the table is used.
func (t *Table) Own(of func(key string) string) {
	t.owners.of, t.owners.by = of, map[string]*estate{}
}

func (w *owners) add(o object, id evict.ID) {
	if w.of == nil {
		return
	}
	owner := w.of(o.key())
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.by[owner]
	if e == nil {
		e = &estate{at: map[evict.ID]uint32{}}
		w.by[owner] = e
	}
	e.at[id] = uint32(len(e.ids))
	e.ids = append(e.ids, id)
}

func (w *owners) remove(o object, id evict.ID) {
	if w.of == nil {
		return
	}
	owner := w.of(o.key())
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.by[owner]
	last := e.ids[len(e.ids)-1]
	e.ids[e.at[id]], e.at[last] = last, e.at[id]
	e.ids = e.ids[:len(e.ids)-1]
	if delete(e.at, id); len(e.ids) == 0 {
		delete(w.by, owner)
	}
}

// sample returns up to limit objects of an owner, by chance and maybe one twice. whole says
// that these are all.
func (w *owners) sample(owner string, limit int) (ids []evict.ID, whole bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.by[owner]
	if e == nil || len(e.ids) <= limit {
		if e != nil {
			ids = slices.Clone(e.ids)
		}
		return ids, true
	}
	ids = make([]evict.ID, limit)
	for i := range ids {
		ids[i] = e.ids[rand.IntN(len(e.ids))]
	}
	return ids, false
}

// Sample looks at up to limit objects of an owner, chosen by chance, or at all where it has
// no more (whole), and returns those that Evict would take, the least recently used first
// and softly pinned ones, whose Seq is 0, last. Empty unless Own was called.
func (t *Table) Sample(owner string, now lease.Instant, rules Rules, limit int) (ranks []Rank, whole bool) {
	type found struct {
		Rank
		pinned lease.Instant
	}
	ids, whole := t.owners.sample(owner, limit)
	all := make([]found, 0, len(ids))
	for _, id := range ids {
		_, s, o := t.byID(id)
		if _, out := t.protected(o, now, rules); out == Done {
			f := found{Rank: Rank{o.rank(), id}}
			if o.has(softPin) {
				f.Seq, f.pinned = 0, o.used()
			}
			all = append(all, f)
		}
		s.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.pinned, b.pinned), cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.ID, b.ID))
	})
	ranks = make([]Rank, 0, len(all))
	for _, f := range all {
		ranks = append(ranks, f.Rank)
	}
	return slices.Compact(ranks), whole
}
