package central

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// claimTries bounds how often a claim starts over because the key changed meanwhile.
const claimTries = 4

// claim publishes the address of this node's daemon. A crashed process leaves its key
// behind, so a holder that does not answer a probe loses the name.
//
// The service has no compare-and-swap: of two processes that take over one dead name in
// the same instant, the last to write has it, and the other is told with its next Publish.
func (d *Directory) claim(ctx context.Context) error {
	key := d.addressKey()
	for range claimTries {
		err := d.store.Put(ctx, key, d.address)
		if !errors.Is(err, metadata.ErrDuplicate) {
			return err
		}
		holder, err := d.store.Get(ctx, key)
		if errors.Is(err, metadata.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if bytes.Equal(holder, d.address) {
			return nil
		}
		if err := d.refuseIfAlive(ctx, holder); err != nil {
			return err
		}
		if now, err := d.store.Get(ctx, key); err != nil || !bytes.Equal(now, holder) {
			continue
		}
		if err := d.store.Delete(ctx, key); err != nil && !errors.Is(err, metadata.ErrNotFound) {
			return err
		}
	}
	return errs.New(errs.SegmentAlreadyExists, "metadata: publish "+d.opts.LocalName, "other processes keep claiming the name")
}

// refuseIfAlive returns an error that names the holder when its daemon answers.
func (d *Directory) refuseIfAlive(ctx context.Context, holder []byte) error {
	a, err := metadata.DecodeAddress(holder)
	if err != nil {
		d.opts.Logger.Warn("metadata: the holder of this node's name published no usable address; taking the name over",
			"name", d.opts.LocalName, "error", err)
		return nil
	}
	probe, cancel := context.WithTimeout(ctx, d.opts.ProbeTimeout)
	defer cancel()
	err = d.opts.Dialer.Probe(probe, a)
	if err == nil {
		return errs.WithHint(errs.New(errs.SegmentAlreadyExists, "metadata: publish "+d.opts.LocalName,
			"the name belongs to a running process that answers at %s", a), "give this node another name, or stop that process")
	}
	if ctx.Err() != nil {
		return errs.Wrap(errs.RPCTimeout, "metadata: publish "+d.opts.LocalName, ctx.Err())
	}
	d.opts.Logger.Warn("metadata: the holder of this node's name does not answer; taking the name over",
		"name", d.opts.LocalName, "holder", a.String(), "error", err)
	return nil
}

// keep publishes again what a restarted service has lost, until ctx is done.
func (d *Directory) keep(ctx context.Context) {
	tick := time.NewTicker(d.opts.Refresh)
	defer tick.Stop()
	lost := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		once, cancel := context.WithTimeout(ctx, 10*time.Second)
		err := d.refresh(once)
		cancel()
		if ctx.Err() != nil {
			return
		}
		// Each outage is told once, when it begins.
		if err != nil && !lost {
			d.opts.Logger.Warn("metadata: this node may not be found by others", "name", d.opts.LocalName, "error", err)
		}
		lost = err != nil
	}
}

func (d *Directory) refresh(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.descriptor == nil {
		return nil
	}
	holder, err := d.store.Get(ctx, d.addressKey())
	switch {
	case errors.Is(err, metadata.ErrNotFound):
		if err := d.put(ctx, d.descriptor); err != nil {
			return err
		}
		d.opts.Logger.Info("metadata: the service had lost this node; it is published again", "name", d.opts.LocalName)
	case err != nil:
		return err
	case !bytes.Equal(holder, d.address):
		return errs.New(errs.SegmentAlreadyExists, "metadata", "the name was taken over by %.200s", holder)
	}
	return nil
}
