package store

import (
	"context"

	"github.com/mooncake-go/mooncake/core/store"
)

// Exist sets each result to 1 for a key that can be read, to 0, or to a code.
func (s *Store) Exist(keys []string, results []Code) {
	s.with(results, func(ctx context.Context, o *opened) {
		for i, r := range o.pool.BatchExist(ctx, keys) {
			switch {
			case keys[i] == "":
				results[i] = 0 // No object has an empty key, and connectors take any other number as a yes.
			case r.Err != nil:
				results[i] = s.note(r.Err)
			case r.Value:
				results[i] = 1
			default:
				results[i] = 0
			}
		}
	})
}

// Size sets each result to the size of an object in bytes, or to a code.
func (s *Store) Size(keys []string, results []Code) {
	s.with(results, func(ctx context.Context, o *opened) {
		objects := store.Calls{Pool: o.pool}.Query(ctx, keys)
		for i, r := range objects {
			if results[i] = s.note(r.Err); r.Err == nil {
				results[i] = Code(r.Value.Size)
			}
		}
	})
}

// Remove removes objects and sets each result to 0 or a code.
func (s *Store) Remove(keys []string, force bool, results []Code) {
	s.perKey(results, func(ctx context.Context, o *opened) []error { return o.pool.BatchRemove(ctx, keys, force) })
}

// RemoveByRegex removes the objects whose keys match and returns their number, or a code.
func (s *Store) RemoveByRegex(expr string, force bool) Code {
	return s.one(func(ctx context.Context, o *opened) (int, error) { return o.pool.RemoveByRegex(ctx, expr, force) })
}

// RemoveAll removes all objects that may be removed and returns their number, or a code.
func (s *Store) RemoveAll(force bool) Code {
	return s.one(func(ctx context.Context, o *opened) (int, error) { return o.pool.RemoveByRegex(ctx, "", force) })
}

// one returns the result of a call that has a single result: a number, or a code.
func (s *Store) one(do func(context.Context, *opened) (int, error)) Code {
	var result [1]Code
	s.with(result[:], func(ctx context.Context, o *opened) {
		n, err := do(ctx, o)
		if result[0] = s.note(err); err == nil {
			result[0] = Code(n)
		}
	})
	return result[0]
}
