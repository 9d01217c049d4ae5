package store

import (
	"context"
)

// Exist gives each result: 1 for a key that can be read, 0, or a code.
func (s *Store) Exist(keys []string, results []Code) {
	defer s.guard(results)
	o := s.current.Load()
	if o == nil {
		s.noteAll(errNotSetup, results)
		return
	}
	for i, r := range o.pool.BatchExist(context.Background(), keys) {
		switch {
		case keys[i] == "":
			results[i] = 0 // No object has it, and connectors take any other number for a yes.
		case r.Err != nil:
			results[i] = s.note(r.Err)
		case r.Value:
			results[i] = 1
		default:
			results[i] = 0
		}
	}
}

// Size gives each result: the size of an object in bytes, or a code.
func (s *Store) Size(keys []string, results []Code) {
	defer s.guard(results)
	o := s.current.Load()
	if o == nil {
		s.noteAll(errNotSetup, results)
		return
	}
	for i, r := range o.pool.Query(context.Background(), keys) {
		if results[i] = s.note(r.Err); r.Err == nil {
			results[i] = Code(r.Value.Size)
		}
	}
}

// Remove removes objects and gives each result: 0 or a code.
func (s *Store) Remove(keys []string, force bool, results []Code) {
	defer s.guard(results)
	o := s.current.Load()
	if o == nil {
		s.noteAll(errNotSetup, results)
		return
	}
	for i, err := range o.pool.BatchRemove(context.Background(), keys, force) {
		results[i] = s.note(err)
	}
}

// RemoveByRegex removes what matches and returns how many, or a code.
func (s *Store) RemoveByRegex(expr string, force bool) (n Code) {
	return s.one(func(ctx context.Context, o *opened) (int, error) { return o.pool.RemoveByRegex(ctx, expr, force) })
}

// RemoveAll removes what may be removed and returns how many, or a code.
func (s *Store) RemoveAll(force bool) Code {
	return s.one(func(ctx context.Context, o *opened) (int, error) { return o.pool.RemoveAll(ctx, force) })
}

// one is the result of a call that has one: a number, or a code.
func (s *Store) one(do func(context.Context, *opened) (int, error)) Code {
	var result [1]Code
	s.oneInto(do, result[:])
	return result[0]
}

func (s *Store) oneInto(do func(context.Context, *opened) (int, error), result []Code) {
	defer s.guard(result)
	o := s.current.Load()
	if o == nil {
		result[0] = s.note(errNotSetup)
		return
	}
	n, err := do(context.Background(), o)
	if result[0] = s.note(err); err == nil {
		result[0] = Code(n)
	}
}
