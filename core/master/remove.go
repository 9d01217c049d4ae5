package master

import (
	"context"
	"regexp"
	"slices"

	"github.com/mooncake-go/mooncake/core/master/history"
	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// maxExpr bounds a regular expression, in bytes.
const maxExpr = 4 << 10

// Remove deletes objects.
func (s *Service) Remove(ctx context.Context, caller model.Caller, keys []model.Key, force bool) ([]error, error) {
	const op = "master: remove"
	c, err := s.admitted(ctx, op, caller, len(keys))
	if err != nil {
		return nil, err
	}
	out, names := make([]error, len(keys)), make([]string, len(keys))
	for i, k := range keys {
		if out[i] = soughtKey(op, k); out[i] == nil {
			names[i] = c.name(k)
		}
	}
	got, bin := s.take(ctx, names, force, history.RemovedByKey)
	var gone touched
	gone.addBin(&bin)
	var others touched
	if len(bin.Objects) > 0 {
		others = s.unsettled() // A node that falls silent delays one removal, as it does an upsert.
	}
	late, err := s.await(ctx, gone, others)
	unconfirmed := map[string]bool{}
	for g, extents := range bin.Each {
		if slices.ContainsFunc(extents, func(e segments.Extent) bool { return late.contains(e.Seg) }) {
			unconfirmed[g.Key] = true
		}
	}
	for i, k := range keys {
		if out[i] == nil {
			out[i] = outcomeError(got[i], op, k)
		}
		if out[i] == nil && unconfirmed[names[i]] {
			out[i] = lateError(op, late, err)
		}
		s.counters.Remove.Done(out[i] != nil)
	}
	s.feed(ctx)
	return out, nil
}

// take removes what the table holds under names, and passes over empty ones. Memory that a reader still has a lease on stays as
// it is until the lease ends. The bin has what went; its memory is reclaimed already.
func (s *Service) take(ctx context.Context, names []string, force bool, why history.Reason) (out []objects.Outcome, bin objects.Bin) {
	out = make([]objects.Outcome, len(names))
	s.pool.Enter()
	defer s.pool.Leave()
	now := s.clock.Now()
	for i, name := range names {
		if name != "" {
			out[i] = s.table.Remove(name, now, force, &bin)
		}
	}
	s.reclaim(ctx, &bin, why, false)
	return out, bin
}

// RemoveByRegex deletes what matches and may be removed, and returns how many. An error in
// the middle leaves what was removed so far removed.
func (s *Service) RemoveByRegex(ctx context.Context, caller model.Caller, expr string, force bool) (int, error) {
	const op = "master: remove by regex"
	n, err := s.removeByRegex(ctx, op, caller, expr, force)
	s.counters.RemoveByRegex.Done(err != nil)
	return n, err
}

func (s *Service) removeByRegex(ctx context.Context, op string, caller model.Caller, expr string, force bool) (int, error) {
	c, err := s.admitted(ctx, op, caller, 0)
	if err != nil {
		return 0, err
	}
	re, err := compile(op, expr)
	if err != nil {
		return 0, err
	}
	return s.removeWhere(ctx, op, matching(c, re), force, history.RemovedByRegex)
}

// RemoveAll deletes everything of a tenant, or of all, that may be removed and returns how
// many.
func (s *Service) RemoveAll(ctx context.Context, caller model.Caller, force bool) (int, error) {
	n, err := s.removeEverything(ctx, caller, force)
	s.counters.RemoveAll.Done(err != nil)
	return n, err
}

func (s *Service) removeEverything(ctx context.Context, caller model.Caller, force bool) (int, error) {
	const op = "master: remove all"
	if err := s.admit(ctx, op, 0); err != nil {
		return 0, err
	}
	match := func(string) bool { return true }
	if caller.Tenant != model.AllTenants {
		c, err := s.scoped(op, caller)
		if err != nil {
			return 0, err
		}
		match = matching(c, nil)
	}
	return s.removeWhere(ctx, op, match, force, history.RemovedWithAll)
}

// removeWhere walks through the table. After each step it waits until nodes have confirmed what went, so that their ledgers keep
// up, but only once for a node that is late. match runs without a lock.
func (s *Service) removeWhere(ctx context.Context, op string, match func(name string) bool, force bool, why history.Reason) (total int, failed error) {
	var all, names []string
	var late touched
	for at, more := objects.Cursor(0), true; more; more = at != 0 {
		if err := ctx.Err(); err != nil {
			return total, errs.Wrap(errs.RPCTimeout, op, err)
		}
		names = names[:0]
		all, at = s.table.Keys(at, true, all[:0])
		for _, name := range all {
			if match(name) {
				names = append(names, name)
			}
		}
		out, bin := s.take(ctx, names, force, why)
		for _, got := range out {
			if got == objects.Done {
				total++
			}
		}
		var gone, others touched
		gone.addBin(&bin)
		if at == 0 && total > 0 {
			others = s.unsettled()
		}
		for m := range late {
			delete(gone, m)
		}
		silent, err := s.await(ctx, gone, others)
		for m := range silent {
			late.put(m)
		}
		if silent != nil {
			failed = lateError(op, late, err)
		}
		s.feed(ctx)
	}
	return total, failed
}

// matching selects the names whose keys belong to a caller and contain a match, all of them
// for a nil expression.
func matching(c scope, re *regexp.Regexp) func(name string) bool {
	return func(name string) bool {
		key, ok := c.key(name)
		return ok && (re == nil || re.MatchString(key))
	}
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

// ClearReplicas takes away the copies on a segment, or with "" the whole object, of those keys
// that owner put and no client is reading. From a storage tier its own node clears what others put.
func (s *Service) ClearReplicas(ctx context.Context, caller model.Caller, keys []model.Key, owner model.ClientID, segment string) ([]model.Key, error) {
	const op = "master: clear replicas"
	c, err := s.admitted(ctx, op, caller, len(keys))
	if err != nil {
		return nil, err
	}
	if owner.IsZero() {
		return nil, errs.New(errs.InvalidParams, op, "the owner is the zero client")
	}
	var (
		cleared []model.Key
		bin     objects.Bin
		client  = s.table.Known(owner)
		now     = s.clock.Now()
	)
	if on := s.registry.View().Named(segment); len(on) > 0 && on[0].OnTier() && on[0].Client == caller.Client {
		client = objects.AnyClient
	}
	s.pool.Enter()
	for _, k := range keys {
		if k != "" && s.table.Clear(c.name(k), client, segment, now, &bin) == objects.Done {
			cleared = append(cleared, k)
		}
	}
	var touched touched
	touched.addBin(&bin)
	s.reclaim(ctx, &bin, history.ClearedByOwner, false)
	s.pool.Leave()
	late, err := s.await(ctx, touched, nil)
	s.counters.ClearReplicas.Done(len(keys), len(keys)-len(cleared))
	s.feed(ctx)
	if late != nil {
		return cleared, lateError(op, late, err)
	}
	return cleared, nil
}
