package store

import (
	"context"

	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// errOffsets is the error of a session's call with another number of offsets than of fragments.
var errOffsets = errs.New(errs.InvalidParams, "sessions", "there is not one offset for each piece of memory")

// StartGets begins sessions for reading and sets each result to 0 or a code.
func (s *Store) StartGets(keys []string, results []Code) {
	s.perKey(results, func(ctx context.Context, o *opened) []error { return o.pool.BatchGetSessionStart(ctx, keys) })
}

// GetHeld reads ranges of the objects of sessions, and sets each result to the bytes of all its
// fragments, or to a code. offsets are those of the fragments within their object.
func (s *Store) GetHeld(keys []string, to Fragments, offsets []uint64, results []Code) {
	defer s.guard(results)
	o, sc := s.layer(keys, &to, offsets, results)
	if o == nil {
		return
	}
	defer sc.release()
	reads, ranges := make([]store.Ranges, len(keys)), make([]store.Fragment, len(offsets))
	for j, off := range offsets {
		ranges[j] = store.Fragment{Offset: off, Mem: sc.mem[j]}
	}
	for i, k := range keys {
		lo, hi, _ := to.row(i)
		reads[i] = store.Ranges{Key: k, Fragments: ranges[lo:hi]}
	}
	for i, r := range o.pool.GetSessionRanges(context.Background(), reads) {
		results[i] = s.count(&r)
	}
}

// EndGets ends sessions for reading and returns 0 or a code. It ignores keys without a session.
func (s *Store) EndGets(keys []string) Code {
	return s.one(func(ctx context.Context, o *opened) (int, error) { return 0, o.pool.BatchGetSessionEnd(ctx, keys) })
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
		return o.pool.BatchPutSessionStart(ctx, keys, sizes, cfg, groups)
	})
}

// PutHeld writes ranges of the objects of sessions, and sets each result like GetHeld.
func (s *Store) PutHeld(keys []string, from Fragments, offsets []uint64, results []Code) {
	defer s.guard(results)
	o, sc := s.layer(keys, &from, offsets, results)
	if o == nil {
		return
	}
	defer sc.release()
	writes, sources := make([]store.Ranges, len(keys)), make([]store.Fragment, len(offsets))
	for j, off := range offsets {
		sources[j] = store.Fragment{Offset: off, Mem: sc.mem[j]}
	}
	for i, k := range keys {
		lo, hi, _ := from.row(i)
		writes[i] = store.Ranges{Key: k, Fragments: sources[lo:hi]}
	}
	for i, r := range o.pool.PutSessionRanges(context.Background(), writes) {
		results[i] = s.count(&r)
	}
}

// EndPuts makes objects readable and sets each result to 0 or a code.
func (s *Store) EndPuts(keys []string, results []Code) {
	s.perKey(results, func(ctx context.Context, o *opened) []error { return o.pool.BatchPutSessionEnd(ctx, keys) })
}

// RevokePuts revokes puts and sets each result to 0 or a code.
func (s *Store) RevokePuts(keys []string, results []Code) {
	s.perKey(results, func(ctx context.Context, o *opened) []error { return o.pool.BatchPutSessionRevoke(ctx, keys) })
}

// perKey sets each result to the code of an error.
func (s *Store) perKey(results []Code, do func(context.Context, *opened) []error) {
	s.with(results, func(ctx context.Context, o *opened) {
		for i, err := range do(ctx, o) {
			results[i] = s.note(err)
		}
	})
}

// layer checks the arguments of a call that moves ranges of objects, and makes their memory. It
// returns nil if it has set the results already.
func (s *Store) layer(keys []string, p *Fragments, offsets []uint64, results []Code) (*opened, *scratch) {
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
		return nil, nil
	}
	sc := scratches.Get().(*scratch) //nolint:errcheck // it holds nothing else
	bad := false
	sc.gather(p, len(keys), func(int) { bad = true })
	if bad || len(sc.mem) != len(p.Ptrs) {
		sc.release()
		s.noteAll(errFragment, results)
		return nil, nil
	}
	return o, sc
}
