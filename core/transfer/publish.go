package transfer

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// publication is what the directory was told.
type publication struct {
	turn chan struct{} // capacity 1, full while one tells it
	on   bool          // something is published
	last *metadata.Descriptor
}

// hold waits for its turn, so that descriptors are published in the order they were made.
func (p *publication) hold(ctx context.Context) error {
	select {
	case p.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *publication) release() { <-p.turn }

// Publish makes the memory that is open to peers known in the directory. From then on the
// engine publishes again by itself when a transport's part changes, until Withdraw.
func (e *Engine) Publish(ctx context.Context) error {
	e.watch()
	if err := e.public.hold(ctx); err != nil {
		return errs.Wrap(errs.RPCTimeout, "transfer: publish "+e.dir.LocalName(), err)
	}
	defer e.public.release()
	err := e.tell(ctx, e.Descriptor())
	e.public.on = e.public.on || err == nil
	return errs.Wrap(errs.RPCFail, "transfer: publish "+e.dir.LocalName(), err)
}

// republish is Publish, if something is published.
func (e *Engine) republish(ctx context.Context) error {
	if err := e.public.hold(ctx); err != nil {
		return err
	}
	defer e.public.release()
	if !e.public.on {
		e.tellCarriers(e.present)
		return nil
	}
	d := e.Descriptor()
	if e.public.last != nil {
		d.Timestamp = e.public.last.Timestamp
		if reflect.DeepEqual(d, e.public.last) {
			e.told(d)
			return nil // Only rails changed, which peers do not see.
		}
		d.Timestamp = metadata.Timestamp(time.Now())
	}
	return e.tell(ctx, d)
}

// tell publishes a descriptor and remembers it. The caller holds the turn.
func (e *Engine) tell(ctx context.Context, d *metadata.Descriptor) error {
	e.public.last = nil
	err := e.dir.Publish(ctx, d)
	if err == nil {
		e.public.last = d
		e.told(d)
	}
	return err
}

// told passes on what the directory has now.
func (e *Engine) told(d *metadata.Descriptor) {
	e.tellCarriers(func(i int) transport.Endpoint {
		return transport.Endpoint{Blob: d.Transports[i].Blob, Incarnation: d.Transports[i].Incarnation}
	})
}

// Withdraw takes what is published back.
func (e *Engine) Withdraw(ctx context.Context) error {
	if err := e.public.hold(ctx); err != nil {
		return errs.Wrap(errs.RPCTimeout, "transfer: withdraw "+e.dir.LocalName(), err)
	}
	defer e.public.release()
	e.public.on, e.public.last = false, nil
	return errs.Wrap(errs.RPCFail, "transfer: withdraw "+e.dir.LocalName(), e.dir.Withdraw(ctx))
}

// Published reports whether the directory holds this process's current descriptor, as far
// as peers depend on it. An error means that the directory could not be asked.
func (e *Engine) Published(ctx context.Context) (bool, error) {
	got, err := e.dir.Lookup(ctx, e.dir.LocalName())
	if errors.Is(err, metadata.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, errs.Wrap(errs.RPCFail, "transfer: look up the own name "+e.dir.LocalName(), err)
	}
	want := e.Descriptor()
	if len(got.Transports) != len(want.Transports) || len(got.Buffers) != len(want.Buffers) || len(got.Devices) != len(want.Devices) {
		return false, nil
	}
	for i, t := range want.Transports {
		if got.Transports[i].Incarnation != t.Incarnation || len(got.Transports[i].Regions) != len(t.Regions) {
			return false, nil
		}
	}
	return true, nil
}
