// Package router is a master that stands for the masters of all cells of a pool (core/cells).
//
// A batch is split by the cells of its keys, the cells are called at the same time, and their answers are merged in the order
// of the keys. Where a cell cannot be reached, its keys have an error and the others have not; the call as a whole fails only
// when no cell answers. Calls that are about the whole pool go to all cells, and fail when one of them does.
package router

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/core/cells"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Router is a store.Master over the masters of the cells of a pool. With one cell every call goes straight to its master.
// Safe for concurrent use.
type Router struct {
	cells atomic.Pointer[[]*cell]
	turn  atomic.Uint64   // which cell FetchTasks asks first
	run   context.Context // of what goes on in the background
	stop  context.CancelFunc
	tasks sync.WaitGroup

	mu     sync.Mutex
	closed bool
	moved  func() // see OnMove
}

var (
	_ store.Master = (*Router)(nil)
	_ store.Mover  = (*Router)(nil)
	_ store.Celled = (*Router)(nil)
)

// New returns a Router over the masters of the cells, in order. The caller closes them, after the Router.
func New(masters ...store.Master) *Router {
	r := &Router{}
	r.run, r.stop = context.WithCancel(context.Background())
	r.Use(masters...)
	return r
}

// Use has further calls go to these masters.
func (r *Router) Use(masters ...store.Master) {
	list := make([]*cell, len(masters))
	for i, m := range masters {
		list[i] = &cell{background: r.background, tell: r.tell, index: i, of: len(masters), master: m, pending: map[*call]struct{}{}}
	}
	r.cells.Store(&list)
	for _, c := range list {
		if m, ok := c.master.(store.Mover); ok {
			m.OnMove(c.moved)
		}
	}
	r.tell()
}

// Masters implements store.Celled.
func (r *Router) Masters(context.Context) ([]store.Master, error) {
	var out []store.Master
	for _, c := range r.list() {
		out = append(out, c.master)
	}
	return out, nil
}

func (r *Router) list() []*cell { return *r.cells.Load() }

// OnMove implements store.Mover: a change in any cell is one.
func (r *Router) OnMove(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.moved = f
}

func (r *Router) tell() {
	r.mu.Lock()
	f := r.moved
	r.mu.Unlock()
	if f != nil {
		f()
	}
}

// Close ends what goes on in the background. Repeatable.
func (r *Router) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.stop()
	r.tasks.Wait()
}

// background runs f, which ends soon after ctx, unless the Router is closed.
func (r *Router) background(f func(ctx context.Context)) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.tasks.Go(func() { f(r.run) })
	return true
}

// scatter makes one call for a batch: the part of each cell goes to its master. The answers are in the order of the items. Those
// of several cells are in memory, if there is any, which keeps them.
func scatter[In, Out any](ctx context.Context, list []*cell, items []In, key func(*In) model.Key, failed func(error) Out, memory *[]Out,
	f func(ctx context.Context, c *cell, part []In) ([]Out, error),
) ([]Out, error) {
	one := func(c *cell, part []In) ([]Out, error) {
		got, err := ask(ctx, c, func(ctx context.Context) ([]Out, error) { return f(ctx, c, part) })
		if err == nil && len(got) != len(part) {
			err = errs.New(errs.RPCFail, "store", "the master of %s answered for %d keys of %d", c, len(got), len(part))
		}
		return got, err
	}
	s := split(items, key, len(list))
	if s.only >= 0 {
		got, err := one(list[s.only], items)
		if err == nil || fails(ctx, list, err) {
			return got, err
		}
		return slices.Repeat([]Out{failed(err)}, len(items)), nil
	}
	if memory == nil {
		memory = new([]Out)
	}
	out := slices.Grow((*memory)[:0], len(items))[:len(items)]
	*memory = out
	causes := make([]error, len(list))
	run := func(c int) {
		part := s.of(c)
		got, err := one(list[c], part)
		causes[c] = err
		for i, at := range s.at(c) {
			if err != nil {
				out[at] = failed(err)
			} else {
				out[at] = got[i]
			}
		}
	}
	var calls sync.WaitGroup
	for c := range list {
		if len(s.of(c)) == 0 {
			continue
		}
		if c == s.last {
			run(c)
			break
		}
		calls.Go(func() { run(c) })
	}
	calls.Wait()
	var failure error
	for c, err := range causes {
		switch {
		case len(s.of(c)) == 0:
		case err == nil:
			return out, nil
		case failure == nil:
			failure = err
		}
	}
	if fails(ctx, list, failure) {
		return nil, failure
	}
	return out, nil
}

// fails reports whether the error of all parts of a call is that of the call: an answer is, and so is silence where no cell
// answers, or where the caller did not wait.
func fails(ctx context.Context, list []*cell, err error) bool {
	return !unanswered(err) || ctx.Err() != nil || allDown(list)
}

// grouped are the items of a batch by their cells.
type grouped[In any] struct {
	only, last int // the cell of all of them, -1 for several; the last one that has some
	items      []In
	index      []int32
	ends       []int32
}

// of returns the items of a cell, and at their places in the batch.
func (p *grouped[In]) of(c int) []In    { return p.items[p.start(c):p.ends[c]] }
func (p *grouped[In]) at(c int) []int32 { return p.index[p.start(c):p.ends[c]] }

func (p *grouped[In]) start(c int) int32 {
	if c == 0 {
		return 0
	}
	return p.ends[c-1]
}

// split sorts items by their cells, and keeps their order in each.
func split[In any](items []In, key func(*In) model.Key, n int) grouped[In] {
	p := grouped[In]{only: -1}
	if len(items) == 0 {
		p.only = 0
		return p
	}
	if len(items) == 1 {
		p.only = cells.Of(key(&items[0]), n)
		return p
	}
	of := make([]uint8, len(items))
	p.ends = make([]int32, n)
	for i := range items {
		c := cells.Of(key(&items[i]), n)
		of[i] = uint8(c)
		p.ends[c]++
	}
	if int(p.ends[of[0]]) == len(items) {
		p.only = int(of[0])
		return p
	}
	next := make([]int32, n)
	for c, sum := 0, int32(0); c < n; c++ {
		if p.ends[c] > 0 {
			p.last = c
		}
		next[c] = sum
		sum += p.ends[c]
		p.ends[c] = sum
	}
	p.items, p.index = make([]In, len(items)), make([]int32, len(items))
	for i := range items {
		at := next[of[i]]
		next[of[i]]++
		p.items[at], p.index[at] = items[i], int32(i)
	}
	return p
}

// each calls all cells at the same time. An error is that of the first cell that failed.
func each[T any](ctx context.Context, list []*cell, f func(ctx context.Context, c *cell) (T, error)) ([]T, error) {
	out, causes := make([]T, len(list)), make([]error, len(list))
	var calls sync.WaitGroup
	for i, c := range list {
		calls.Go(func() { out[i], causes[i] = ask(ctx, c, func(ctx context.Context) (T, error) { return f(ctx, c) }) })
	}
	calls.Wait()
	for i, err := range causes {
		if err != nil {
			return out, errs.Wrap(errs.CodeOf(err), list[i].String(), err)
		}
	}
	return out, nil
}

// first calls cells at the same time and returns an answer that is not the one of a cell that does not know what is meant.
func first[T any](ctx context.Context, list []*cell, unknown errs.Code, f func(ctx context.Context, m store.Master) (T, error)) (T, error) {
	out, causes := make([]T, len(list)), make([]error, len(list))
	var calls sync.WaitGroup
	for i, c := range list {
		calls.Go(func() {
			out[i], causes[i] = ask(ctx, c, func(ctx context.Context) (T, error) { return f(ctx, c.master) })
		})
	}
	calls.Wait()
	var failed error
	for i, err := range causes {
		switch {
		case err == nil:
			return out[i], nil
		case failed == nil, errs.Is(failed, unknown): // What another cell did not answer is worth more.
			failed = err
		}
	}
	var none T
	return none, failed
}

// merge merges sorted lists, up to limit entries.
func merge[T any](lists [][]T, key func(*T) model.Key, limit int) []T {
	var out []T
	for len(out) < limit {
		least := -1
		for i, l := range lists {
			if len(l) > 0 && (least < 0 || key(&l[0]) < key(&lists[least][0])) {
				least = i
			}
		}
		if least < 0 {
			break
		}
		out = append(out, lists[least][0])
		lists[least] = lists[least][1:]
	}
	return out
}

// errNodes is the error of calls by which a node has its ledgers written.
func errNodes(op string) error {
	return errs.WithHint(errs.New(errs.NotSupported, "master: "+op, "this pool has several cells, and a store with ledgers calls the master of each"),
		"give the store the address of etcd (etcd://host:port) in place of that of a master")
}
