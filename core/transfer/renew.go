package transfer

import (
	"context"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// listener is a transport that wants to know that its peers can find an endpoint of it, to
// end what served them before.
type listener interface {
	Published(transport.Endpoint)
}

// renewKeys reads the keys of regions again where the transport may have made new ones. A
// region that nothing serves any more keeps its place, and is not offered to peers.
func (e *Engine) renewKeys(carrier int, list []*region) {
	t, ok := transport.As[transport.Renewing](e.carriers[carrier].Transport)
	if !ok {
		return
	}
	for _, r := range list {
		ring := &r.keys[carrier]
		if !ring.has() {
			continue
		}
		switch key, err := t.Key(r.id); {
		case err == nil && len(key) > 0:
			ring.set(key)
		case errs.ClassOf(err) == errs.ClassLocalDevice:
			ring.set(nil)
		}
	}
}

// catchUp registers with a transport that is back the regions that it could not take while
// it was away.
func (e *Engine) catchUp(ctx context.Context, carrier int) {
	c := &e.carriers[carrier]
	for _, r := range e.regions.all() {
		if !r.keys[carrier].later.Load() || !r.ready.Load() {
			continue
		}
		if err := e.registerLate(ctx, r, carrier); err != nil {
			e.log.Debug("memory is still not registered with a transport", "transport", c.Name, "bytes", len(r.mem), "error", err)
		}
	}
}

func (e *Engine) registerLate(ctx context.Context, r *region, carrier int) error {
	r.use.RLock() // The region does not end meanwhile.
	defer r.use.RUnlock()
	if r.gone || r.keys[carrier].has() {
		return nil
	}
	key, err := e.carriers[carrier].Transport.Register(ctx, r.forTransport())
	if err == nil {
		r.keys[carrier].set(key)
		r.keys[carrier].later.Store(false)
	}
	return err
}

// tellCarriers says which endpoints peers can find: those that were just published, or, where
// nothing is, the present ones, since nobody looks for them.
func (e *Engine) tellCarriers(published func(carrier int) transport.Endpoint) {
	for i := range e.carriers {
		if l, ok := transport.As[listener](e.carriers[i].Transport); ok {
			l.Published(published(i))
		}
	}
}

func (e *Engine) present(carrier int) transport.Endpoint {
	return e.carriers[carrier].Transport.Endpoint()
}
