package store

import (
	"context"
	"slices"

	"github.com/mooncake-go/mooncake/core/store"
)

// PutFlags modify a put.
type PutFlags int32

// The flags.
const (
	// Upsert replaces an existing object. Without it a put of an existing key succeeds and writes
	// nothing.
	Upsert PutFlags = 1
	// MayPreferNode accepts Replicate.PreferNode.
	MayPreferNode PutFlags = 2
)

// Put stores objects and sets each result to 0 or a code. It reads the memory until it returns.
func (s *Store) Put(keys []string, from Fragments, how *Replicate, flags PutFlags, results []Code) {
	defer s.guard(results)
	o := s.current.Load()
	if o == nil {
		s.noteAll(errNotSetup, results)
		return
	}
	cfg, err := how.config(len(keys), flags&MayPreferNode != 0)
	if err == nil {
		err = from.check(len(keys))
	}
	if err != nil {
		s.noteAll(err, results)
		return
	}
	cfg.Upsert = flags&Upsert != 0
	sc := scratches.Get().(*scratch) //nolint:errcheck // it holds nothing else
	defer sc.release()
	clear(results)
	sc.gather(&from, len(keys), func(i int) { results[i] = s.note(errFragment) })
	items := slices.Grow(sc.items[:0], len(keys))
	for i, k := range keys {
		if results[i] != 0 {
			continue
		}
		it := store.Item{Key: k, Value: sc.rows[i]}
		if how.HasGroupIDs {
			it.Group = how.GroupIDs[i]
		}
		items = append(items, it)
	}
	sc.items = items
	at := 0
	for _, r := range o.pool.PutItems(context.Background(), items, cfg) {
		for results[at] != 0 {
			at++
		}
		results[at] = s.note(r.Err)
		at++
	}
}
