package store

import (
	"context"
	"errors"
	"sync"

	"github.com/mooncake-go/mooncake/core/store"
)

// lents counts the objects that a client of another process has lent. That process reuses their
// memory when the client closes, so the client stays open until all of them are released.
type lents struct {
	mu   sync.Mutex
	n    int
	last func() // called when all objects are released; nil before the end
}

func (l *lents) add() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
}

func (l *lents) done() {
	l.mu.Lock()
	l.n--
	var last func()
	if l.n == 0 {
		last, l.last = l.last, nil
	}
	l.mu.Unlock()
	if last != nil {
		last()
	}
}

// later calls f when all objects are released. It returns false and does nothing if no object is
// lent.
func (l *lents) later(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n > 0 {
		l.last = f
	}
	return l.n > 0
}

// counted is an object whose client stays open until it is released.
type counted struct {
	store.Lent
	once  sync.Once
	count *lents
}

// Release implements store.Lent.
func (c *counted) Release() {
	c.once.Do(func() {
		c.Lent.Release()
		c.count.done()
	})
}

// end closes a store that was set up.
func (o *opened) end(ctx context.Context) error {
	if o.node != nil { // Each lent object has memory of its own.
		return o.endNow(ctx)
	}
	last := func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if err := o.endNow(ctx); err != nil {
			o.log.Error("the store was not closed completely", "error", err)
		}
	}
	if !o.lent.later(last) {
		return o.endNow(ctx)
	}
	var failed error // The program may free its registered memory even while it still reads objects.
	for _, r := range o.registered.drain() {
		if mem, ok := At(r.addr, r.size); ok {
			failed = errors.Join(failed, o.pool.UnregisterBuffer(ctx, mem))
		}
	}
	return failed
}

func (o *opened) endNow(ctx context.Context) error {
	if err := o.close(ctx); err != nil {
		return err // Transfers may still access the memory.
	}
	return o.mounted.end()
}
