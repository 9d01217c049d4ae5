package master

import (
	"context"
	"regexp"

	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// maxExpr bounds a regular expression, in bytes.
const maxExpr = 4 << 10

// Remove deletes objects.
func (s *Service) Remove(ctx context.Context, _ model.Caller, keys []model.Key, force bool) ([]error, error) {
	const op = "master: remove"
	if err := s.admit(ctx, op, len(keys)); err != nil {
		return nil, err
	}
	out := make([]error, len(keys))
	got, _ := s.removeAll(ctx, keys, force)
	for i, k := range keys {
		if out[i] = validKey(op, k); out[i] == nil {
			out[i] = outcomeError(got[i], op, k)
		}
		s.counters.Remove.Done(out[i] != nil)
	}
	s.feed(ctx)
	return out, nil
}

// removeAll removes keys and gives their memory back in one call. Memory that a reader
// still has a lease on stays as it is until the lease ends.
func (s *Service) removeAll(ctx context.Context, keys []model.Key, force bool) (out []objects.Outcome, removed int) {
	out = make([]objects.Outcome, len(keys))
	var free []segments.Extent
	s.pool.Enter()
	defer s.pool.Leave()
	now := s.clock.Now()
	for i, k := range keys {
		gone, got := s.table.Remove(k, now, force)
		out[i] = got
		if got != objects.Done {
			continue
		}
		removed++
		free = s.giveUp(gone, now, free)
	}
	s.pool.Free(ctx, free)
	return out, removed
}

func (s *Service) giveUp(gone objects.Removed, now lease.Instant, free []segments.Extent) []segments.Extent {
	if gone.Lease <= now {
		return append(free, gone.Extents...)
	}
	for _, e := range gone.Extents {
		s.pool.HoldRead(e, gone.Lease)
	}
	return free
}

// RemoveByRegex deletes what matches and may be removed, and returns how many. An error in
// the middle leaves what was removed so far removed.
func (s *Service) RemoveByRegex(ctx context.Context, _ model.Caller, expr string, force bool) (int, error) {
	const op = "master: remove by regex"
	if err := s.admit(ctx, op, 0); err != nil {
		return 0, err
	}
	re, err := compile(op, expr)
	if err != nil {
		s.counters.RemoveByRegex.Done(true)
		return 0, err
	}
	n, err := s.removeWhere(ctx, op, re, force)
	s.counters.RemoveByRegex.Done(err != nil)
	return n, err
}

// RemoveAll deletes everything that may be removed and returns how many.
func (s *Service) RemoveAll(ctx context.Context, _ model.Caller, force bool) (int, error) {
	const op = "master: remove all"
	if err := s.admit(ctx, op, 0); err != nil {
		return 0, err
	}
	n, err := s.removeWhere(ctx, op, nil, force)
	s.counters.RemoveAll.Done(err != nil)
	return n, err
}

// removeWhere goes through the shards. Matching runs without a lock.
func (s *Service) removeWhere(ctx context.Context, op string, re *regexp.Regexp, force bool) (int, error) {
	total := 0
	var keys []model.Key
	for i := range objects.Shards {
		if err := ctx.Err(); err != nil {
			return total, errs.Wrap(errs.RPCTimeout, op, err)
		}
		keys = match(s.table.Keys(i, keys[:0]), re)
		_, n := s.removeAll(ctx, keys, force)
		total += n
		s.feed(ctx)
	}
	return total, nil
}

// match keeps the keys that contain a match, all of them for a nil expression.
func match(keys []model.Key, re *regexp.Regexp) []model.Key {
	if re == nil {
		return keys
	}
	out := keys[:0]
	for _, k := range keys {
		if re.MatchString(k) {
			out = append(out, k)
		}
	}
	return out
}

func compile(op, expr string) (*regexp.Regexp, error) {
	if len(expr) > maxExpr {
		return nil, errs.New(errs.InvalidParams, op, "the expression has %d bytes; the most is %d", len(expr), maxExpr)
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, errs.New(errs.InvalidParams, op, "the expression is malformed: %w; the syntax is RE2", err)
	}
	return re, nil
}
