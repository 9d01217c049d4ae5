package region

import (
	"context"

	"github.com/mooncake-go/mooncake/core/transfer/carrier"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// RenewKeys reads the keys of regions again where the transport may have made new ones. A
// region that the transport no longer serves stays in the table and is not offered to peers.
func (t *Table) RenewKeys(i int, list []*Region) {
	renewing, ok := transport.As[carrier.Renewing](t.carriers.List[i].Transport)
	if !ok {
		return
	}
	for _, r := range list {
		k := &r.keys[i]
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

// CatchUp registers with a transport that is back the regions that it could not take while
// it was away.
func (t *Table) CatchUp(ctx context.Context, carrier int) {
	for _, r := range t.all() {
		if !r.keys[carrier].later.Load() || !r.ready.Load() {
			continue
		}
		if err := t.registerLate(ctx, r, carrier); err != nil {
			t.log.Debug("memory is still not registered with a transport", "transport", t.carriers.List[carrier].Name, "bytes", len(r.Mem), "error", err)
		}
	}
}

func (t *Table) registerLate(ctx context.Context, r *Region, carrier int) error {
	if !r.Hold() {
		return nil
	}
	defer r.LetGo()
	if r.Registered(carrier) {
		return nil
	}
	key, err := t.carriers.List[carrier].Transport.Register(ctx, r.forTransport())
	if err == nil {
		r.keys[carrier].set(key)
		r.keys[carrier].later.Store(false)
	}
	return err
}
