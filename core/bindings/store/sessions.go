package store

import (
	"context"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// errOffsets is the error of a session's call with another number of offsets than of fragments.
var errOffsets = errs.New(errs.InvalidParams, "sessions", "there is not one offset for each piece of memory")

// StartGets begins sessions for reading and sets each result to 0 or a code.
func (s *Store) StartGets(keys []string, results []Code) {
	s.perKey(results, func(ctx context.Context, o *opened) []error { return o.pool.Layers().StartGets(ctx, keys) })
}

// GetHeld reads ranges of the objects of sessions, and sets each result to the bytes of all its
// fragments, or to a code. offsets are those of the fragments within their object.
func (s *Store) GetHeld(keys []string, to Fragments, offsets []uint64, results []Code) {
	s.moveHeld(keys, &to, offsets, results, store.Layers.GetRanges)
}

// EndGets ends sessions for reading and returns 0 or a code. It ignores keys without a session.
func (s *Store) EndGets(keys []string) Code {
	return s.one(func(ctx context.Context, o *opened) (int, error) { return 0, o.pool.Layers().EndGets(ctx, keys) })
}

// StartPuts begins sessions for writing objects of sizes bytes and sets each result to 0 or a code:
// ObjectAlreadyExists if the object exists or is being put.
func (s *Store) StartPuts(keys []string, sizes []uint64, how *Replicate, results []Code) {
	cfg, err := how.config(len(keys), true)
	if err != nil {
		s.noteAll(err, results)
		return
	}
	s.perKey(results, func(ctx context.Context, o *opened) []error {
		var groups []string
		if how.HasGroupIDs {
			groups = how.GroupIDs
		}
		return o.pool.Layers().StartPuts(ctx, keys, sizes, cfg, groups)
	})
}

// PutHeld writes ranges of the objects of sessions, and sets each result like GetHeld.
func (s *Store) PutHeld(keys []string, from Fragments, offsets []uint64, results []Code) {
	s.moveHeld(keys, &from, offsets, results, store.Layers.PutRanges)
}

// EndPuts makes objects readable and sets each result to 0 or a code.
func (s *Store) EndPuts(keys []string, results []Code) {
	s.perKey(results, func(ctx context.Context, o *opened) []error { return o.pool.Layers().EndPuts(ctx, keys) })
}

// RevokePuts revokes puts and sets each result to 0 or a code.
func (s *Store) RevokePuts(keys []string, results []Code) {
	s.perKey(results, func(ctx context.Context, o *opened) []error { return o.pool.Layers().RevokePuts(ctx, keys) })
}

// perKey sets each result to the code of an error.
func (s *Store) perKey(results []Code, do func(context.Context, *opened) []error) {
	s.with(results, func(ctx context.Context, o *opened) {
		for i, err := range do(ctx, o) {
			results[i] = s.note(err)
		}
	})
}

// moveHeld moves ranges of objects.
func (s *Store) moveHeld(keys []string, p *Fragments, offsets []uint64, results []Code, move func(store.Layers, context.Context, []store.Ranges) []model.Result[int]) {
	defer s.guard(results)
	o := s.current.Load()
	err := p.check(len(keys))
	switch {
	case o == nil:
		err = errNotSetup
	case err == nil && len(offsets) != len(p.Ptrs):
		err = errOffsets
	}
	if err != nil {
		s.noteAll(err, results)
		return
	}
	sc := scratches.Get().(*scratch) //nolint:errcheck // it holds nothing else
	defer sc.release()
	bad := false
	sc.gather(p, len(keys), func(int) { bad = true })
	if bad || len(sc.mem) != len(p.Ptrs) {
		s.noteAll(errFragment, results)
		return
	}
	ranges, fragments := make([]store.Ranges, len(keys)), make([]store.Fragment, len(offsets))
	for j, off := range offsets {
		fragments[j] = store.Fragment{Offset: off, Mem: sc.mem[j]}
	}
	for i, k := range keys {
		lo, hi, _ := p.row(i)
		ranges[i] = store.Ranges{Key: k, Fragments: fragments[lo:hi]}
	}
	for i, r := range move(o.pool.Layers(), context.Background(), ranges) {
		results[i] = s.count(&r)
	}
}
