package transfer

import (
	"context"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// renewKeys reads the keys of regions again where the transport may have made new ones. A
// region that the transport no longer serves stays in the table and is not offered to peers.
func (t *regions) renewKeys(carrier int, list []*region) {
	renewing, ok := transport.As[transport.Renewing](t.carriers.list[carrier].Transport)
	if !ok {
		return
	}
	for _, r := range list {
		k := &r.keys[carrier]
		if !k.has() {
			continue
		}
		switch key, err := renewing.Key(r.id); {
		case err == nil && len(key) > 0:
			k.set(key)
		case errs.ClassOf(err) == errs.ClassLocalDevice:
			k.set(nil)
		}
	}
}

// catchUp registers with a transport that is back the regions that it could not take while
// it was away.
func (t *regions) catchUp(ctx context.Context, carrier int) {
	for _, r := range t.all() {
		if !r.keys[carrier].later.Load() || !r.ready.Load() {
			continue
		}
		if err := t.registerLate(ctx, r, carrier); err != nil {
			t.log.Debug("memory is still not registered with a transport", "transport", t.carriers.list[carrier].Name, "bytes", len(r.mem), "error", err)
		}
	}
}

func (t *regions) registerLate(ctx context.Context, r *region, carrier int) error {
	if !r.hold() {
		return nil
	}
	defer r.letGo()
	if r.registered(carrier) {
		return nil
	}
	key, err := t.carriers.list[carrier].Transport.Register(ctx, r.forTransport())
	if err == nil {
		r.keys[carrier].set(key)
		r.keys[carrier].later.Store(false)
	}
	return err
}
