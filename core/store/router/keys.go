package router

import (
	"context"

	"github.com/mooncake-go/mooncake/core/cells"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
)

func self(k *model.Key) model.Key { return *k }

func failedResult[T any](err error) model.Result[T] { return model.Result[T]{Err: err} }

func same(err error) error { return err }

// parts returns the memory of an answer for the parts of n cells, and whole that for the results of all of them.
func parts[T any](into *model.Answer[T], n int) []*model.Answer[T] {
	out := make([]*model.Answer[T], n)
	if into != nil {
		mem := into.Parts(n)
		for i := range mem {
			out[i] = &mem[i]
		}
	}
	return out
}

func whole[T any](into *model.Answer[T]) *[]model.Result[T] {
	if into == nil {
		return nil
	}
	return into.Whole()
}

// Exist implements store.Master.
func (r *Router) Exist(ctx context.Context, caller model.Caller, keys []model.Key) ([]model.Result[bool], error) {
	return scatter(ctx, r.list(), keys, self, failedResult[bool], nil, func(ctx context.Context, c *cell, keys []model.Key) ([]model.Result[bool], error) {
		return c.master.Exist(ctx, caller, keys)
	})
}

// GetReplicas implements store.Master.
func (r *Router) GetReplicas(ctx context.Context, caller model.Caller, keys []model.Key, into *model.Answer[model.Object]) ([]model.Result[model.Object], error) {
	list := r.list()
	if len(list) == 1 {
		return list[0].master.GetReplicas(ctx, caller, keys, into)
	}
	mem := parts(into, len(list))
	return scatter(ctx, list, keys, self, failedResult[model.Object], whole(into), func(ctx context.Context, c *cell, keys []model.Key) ([]model.Result[model.Object], error) {
		return c.master.GetReplicas(ctx, caller, keys, mem[c.index])
	})
}

// GetReplicasByRegex implements store.Master. A lease is granted on what it returns only, so that it takes two calls.
func (r *Router) GetReplicasByRegex(ctx context.Context, caller model.Caller, expr string, after model.Key, limit int) ([]model.Key, []model.Result[model.Object], error) {
	list := r.list()
	if len(list) == 1 {
		return list[0].master.GetReplicasByRegex(ctx, caller, expr, after, limit)
	}
	keys, err := r.ListKeys(ctx, caller, expr, after, limit)
	if err != nil {
		return nil, nil, err
	}
	objects, err := r.GetReplicas(ctx, caller, keys, nil)
	return keys, objects, err
}

// PutStart implements store.Master.
func (r *Router) PutStart(ctx context.Context, caller model.Caller, items []model.PutItem, cfg model.ReplicateConfig, into *model.Answer[[]model.Replica]) ([]model.Result[[]model.Replica], error) {
	list := r.list()
	if len(list) == 1 {
		return list[0].master.PutStart(ctx, caller, items, cfg, into)
	}
	key := func(it *model.PutItem) model.Key { return it.Key }
	mem := parts(into, len(list))
	return scatter(ctx, list, items, key, failedResult[[]model.Replica], whole(into), func(ctx context.Context, c *cell, items []model.PutItem) ([]model.Result[[]model.Replica], error) {
		if err := c.mayWrite(); err != nil {
			return nil, err
		}
		return c.master.PutStart(ctx, caller, items, cfg, mem[c.index])
	})
}

// PutEnd implements store.Master.
func (r *Router) PutEnd(ctx context.Context, caller model.Caller, items []model.EndItem, into []error) ([]error, error) {
	list := r.list()
	if len(list) == 1 {
		return list[0].master.PutEnd(ctx, caller, items, into)
	}
	key := func(it *model.EndItem) model.Key { return it.Key }
	return scatter(ctx, list, items, key, same, &into, func(ctx context.Context, c *cell, items []model.EndItem) ([]error, error) {
		return c.master.PutEnd(ctx, caller, items, nil)
	})
}

// PutRevoke implements store.Master.
func (r *Router) PutRevoke(ctx context.Context, caller model.Caller, items []model.RevokeItem) ([]error, error) {
	key := func(it *model.RevokeItem) model.Key { return it.Key }
	return scatter(ctx, r.list(), items, key, same, nil, func(ctx context.Context, c *cell, items []model.RevokeItem) ([]error, error) {
		return c.master.PutRevoke(ctx, caller, items)
	})
}

// Remove implements store.Master.
func (r *Router) Remove(ctx context.Context, caller model.Caller, keys []model.Key, force bool) ([]error, error) {
	return scatter(ctx, r.list(), keys, self, same, nil, func(ctx context.Context, c *cell, keys []model.Key) ([]error, error) {
		return c.master.Remove(ctx, caller, keys, force)
	})
}

// RemoveByRegex implements store.Master. With an error it returns how many the other cells have removed.
func (r *Router) RemoveByRegex(ctx context.Context, caller model.Caller, expr string, force bool) (int, error) {
	return sum(each(ctx, r.list(), func(ctx context.Context, c *cell) (int, error) {
		return c.master.RemoveByRegex(ctx, caller, expr, force)
	}))
}

// RemoveAll implements store.Master. With an error it returns how many the other cells have removed.
func (r *Router) RemoveAll(ctx context.Context, caller model.Caller, force bool) (int, error) {
	return sum(each(ctx, r.list(), func(ctx context.Context, c *cell) (int, error) { return c.master.RemoveAll(ctx, caller, force) }))
}

func sum(counts []int, err error) (int, error) {
	total := 0
	for _, n := range counts {
		total += n
	}
	return total, err
}

// ListKeys implements store.Master.
func (r *Router) ListKeys(ctx context.Context, caller model.Caller, expr string, after model.Key, limit int) ([]model.Key, error) {
	list := r.list()
	if len(list) == 1 {
		return list[0].master.ListKeys(ctx, caller, expr, after, limit)
	}
	lists, err := each(ctx, list, func(ctx context.Context, c *cell) ([]model.Key, error) {
		return c.master.ListKeys(ctx, caller, expr, after, limit)
	})
	if err != nil {
		return nil, err
	}
	return merge(lists, self, limit), nil
}

// ClearReplicas implements store.Master. With an error it returns what the other cells have cleared.
func (r *Router) ClearReplicas(ctx context.Context, caller model.Caller, keys []model.Key, owner model.ClientID, segment string) ([]model.Key, error) {
	list := r.list()
	if len(list) == 1 {
		return list[0].master.ClearReplicas(ctx, caller, keys, owner, segment)
	}
	s := split(keys, self, len(list))
	got, err := each(ctx, list, func(ctx context.Context, c *cell) ([]model.Key, error) {
		mine := keys
		switch {
		case s.only < 0:
			mine = s.of(c.index)
		case s.only != c.index:
			mine = nil
		}
		if len(mine) == 0 {
			return nil, nil
		}
		return c.master.ClearReplicas(ctx, caller, mine, owner, segment)
	})
	cleared := map[model.Key]bool{}
	for _, part := range got {
		for _, k := range part {
			cleared[k] = true
		}
	}
	var out []model.Key
	for _, k := range keys {
		if cleared[k] {
			out = append(out, k)
			delete(cleared, k)
		}
	}
	return out, err
}

// byKey makes a call about one key.
func byKey[T any](ctx context.Context, r *Router, key model.Key, f func(ctx context.Context, m store.Master) (T, error)) (T, error) {
	list := r.list()
	c := list[cells.Of(key, len(list))]
	return ask(ctx, c, func(ctx context.Context) (T, error) { return f(ctx, c.master) })
}

// Why implements store.Master.
func (r *Router) Why(ctx context.Context, caller model.Caller, key model.Key) (model.Story, error) {
	return byKey(ctx, r, key, func(ctx context.Context, m store.Master) (model.Story, error) { return m.Why(ctx, caller, key) })
}

// CopyStart implements store.Master.
func (r *Router) CopyStart(ctx context.Context, caller model.Caller, kind model.CopyKind, key model.Key, source string, targets []string) (model.CopyPlan, error) {
	return byKey(ctx, r, key, func(ctx context.Context, m store.Master) (model.CopyPlan, error) {
		return m.CopyStart(ctx, caller, kind, key, source, targets)
	})
}

// CopyEnd implements store.Master.
func (r *Router) CopyEnd(ctx context.Context, caller model.Caller, kind model.CopyKind, key model.Key) error {
	_, err := byKey(ctx, r, key, func(ctx context.Context, m store.Master) (none struct{}, err error) {
		return none, m.CopyEnd(ctx, caller, kind, key)
	})
	return err
}

// CopyRevoke implements store.Master.
func (r *Router) CopyRevoke(ctx context.Context, caller model.Caller, kind model.CopyKind, key model.Key) error {
	_, err := byKey(ctx, r, key, func(ctx context.Context, m store.Master) (none struct{}, err error) {
		return none, m.CopyRevoke(ctx, caller, kind, key)
	})
	return err
}
