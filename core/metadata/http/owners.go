package http

import (
	"context"
	"sync"

	"github.com/mooncake-go/mooncake/core/internal/access"
	"github.com/mooncake-go/mooncake/core/metadata/memory"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// owners are the identities that wrote the keys of a store. It has at most as many as the store has keys.
type owners struct {
	store *memory.Store
	mu    sync.Mutex
	of    map[string]*access.Peer
}

// change makes a change to a key, unless another identity wrote it: IllegalClient. Masters and operators may
// change every key. keep says that the peer owns the key then.
func (o *owners) change(ctx context.Context, k *access.Control, c *access.Call, key string, keep bool, do func() error) error {
	p := access.Of(ctx)
	if p == nil {
		return do()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	owner := o.of[key]
	if owner != nil {
		if _, err := o.store.Get(ctx, key); err != nil {
			owner = nil // The store forgot it.
		}
	}
	if owner != nil && !owner.Same(p) && !p.Administers() {
		return k.Refuse(ctx, c, errs.WithHint(errs.New(errs.IllegalClient, "metadata service", "%s may not change the key %.200q, which %s wrote", p.Identity, key, owner.Identity),
			"give each node an address of its own; an operator may delete the key"))
	}
	if err := do(); err != nil {
		return err
	}
	switch {
	case !keep:
		delete(o.of, key)
	case owner == nil:
		o.add(ctx, key, p)
	}
	return nil
}

func (o *owners) add(ctx context.Context, key string, p *access.Peer) {
	if o.of == nil {
		o.of = map[string]*access.Peer{}
	}
	if o.of[key] = p; len(o.of) <= o.store.Limits().Entries {
		return
	}
	for key := range o.of {
		if _, err := o.store.Get(ctx, key); err != nil {
			delete(o.of, key)
		}
	}
}
