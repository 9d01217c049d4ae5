package central

import (
	"context"

	"github.com/mooncake-go/mooncake/core/metadata"
)

// Address implements metadata.Peers.
func (d *Directory) Address(ctx context.Context, name string) (metadata.Address, error) {
	json, err := d.store.Get(ctx, d.opts.Keys.RPCMeta(name))
	if err != nil {
		return metadata.Address{}, err
	}
	return metadata.DecodeAddress(json)
}

// Probe implements metadata.Peers.
func (d *Directory) Probe(ctx context.Context, name string) error {
	a, err := d.Address(ctx, name)
	if err != nil {
		return err
	}
	return d.opts.Dialer.Probe(ctx, a)
}

// Notify implements metadata.Peers.
func (d *Directory) Notify(ctx context.Context, name string, n metadata.Notification) error {
	a, err := d.Address(ctx, name)
	if err != nil {
		return err
	}
	return d.opts.Dialer.Notify(ctx, a, n)
}
