// Package publish tells the metadata service what peers need to reach the memory of this process.
package publish

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"time"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/transfer/carrier"
	"github.com/mooncake-go/mooncake/core/transfer/region"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/matrix"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Publisher tells the directory what peers need to reach the memory of this process.
type Publisher struct {
	dir      metadata.Directory
	carriers *carrier.Set
	regions  *region.Table
	topology matrix.Matrix
	log      *slog.Logger
	id       uint64 // distinguishes this engine from an earlier one of the same name

	turn chan struct{} // capacity 1, full while a goroutine publishes
	on   bool          // something is published
	last *metadata.Descriptor
}

// New returns a publisher that has published nothing.
func New(dir metadata.Directory, carriers *carrier.Set, regions *region.Table, topology matrix.Matrix, log *slog.Logger) *Publisher {
	return &Publisher{
		dir: dir, carriers: carriers, regions: regions, topology: topology, log: log,
		id: max(rand.Uint64(), 1), turn: make(chan struct{}, 1),
	}
}

// hold waits for its turn, so that descriptors are published in the order they were made.
func (p *Publisher) hold(ctx context.Context) error {
	select {
	case p.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *Publisher) release() { <-p.turn }

// Publish makes the memory that is open to peers known in the directory.
func (p *Publisher) Publish(ctx context.Context) error {
	if err := p.hold(ctx); err != nil {
		return errs.Wrap(errs.RPCTimeout, "transfer: publish "+p.dir.LocalName(), err)
	}
	defer p.release()
	err := p.tell(ctx, p.Descriptor())
	p.on = p.on || err == nil
	return errs.Wrap(errs.RPCFail, "transfer: publish "+p.dir.LocalName(), err)
}

// Republish is Publish, if something is published.
func (p *Publisher) Republish(ctx context.Context) error {
	if err := p.hold(ctx); err != nil {
		return err
	}
	defer p.release()
	if !p.on {
		p.carriers.Announce(p.carriers.Endpoint)
		return nil
	}
	d := p.Descriptor()
	if p.last != nil {
		d.Timestamp = p.last.Timestamp
		if reflect.DeepEqual(d, p.last) {
			p.told(d)
			return nil // Only rails changed, which peers do not see.
		}
		d.Timestamp = metadata.Timestamp(time.Now())
	}
	return p.tell(ctx, d)
}

// tell publishes a descriptor and remembers it. The caller holds the turn.
func (p *Publisher) tell(ctx context.Context, d *metadata.Descriptor) error {
	p.last = nil
	err := p.dir.Publish(ctx, d)
	if err == nil {
		p.last = d
		p.told(d)
	}
	return err
}

// told tells the transports what the directory has now.
func (p *Publisher) told(d *metadata.Descriptor) {
	p.carriers.Announce(func(i int) transport.Endpoint {
		return transport.Endpoint{Blob: d.Transports[i].Blob, Incarnation: d.Transports[i].Incarnation}
	})
}

// Withdraw takes back what is published.
func (p *Publisher) Withdraw(ctx context.Context) error {
	if err := p.hold(ctx); err != nil {
		return errs.Wrap(errs.RPCTimeout, "transfer: withdraw "+p.dir.LocalName(), err)
	}
	defer p.release()
	p.on, p.last = false, nil
	return errs.Wrap(errs.RPCFail, "transfer: withdraw "+p.dir.LocalName(), p.dir.Withdraw(ctx))
}

// Published reports whether the directory holds this process's current descriptor, as far as peers
// depend on it. An error means that the directory could not be asked.
func (p *Publisher) Published(ctx context.Context) (bool, error) {
	got, err := p.dir.Lookup(ctx, p.dir.LocalName())
	if errors.Is(err, metadata.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, errs.Wrap(errs.RPCFail, "transfer: look up the own name "+p.dir.LocalName(), err)
	}
	want := p.Descriptor()
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
