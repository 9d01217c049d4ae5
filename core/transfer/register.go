package transfer

import (
	"cmp"
	"context"
	"errors"
	"log/slog"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/matrix"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Memory is a piece of this process's memory to be registered.
type Memory struct {
	Bytes []byte
	// FD is a descriptor of the shared memory that Bytes maps from FDOffset on, -1 for none.
	FD       int
	FDOffset int64
	Location string
	Access   transport.Access
}

// BlockMemory describes a block to Register.
func BlockMemory(b *memory.Block, access transport.Access) Memory {
	return Memory{Bytes: b.Bytes(), FD: b.FD(), FDOffset: b.Offset(), Location: b.Location(), Access: access}
}

// Register makes memory usable on every transport and returns the id to Deregister it by.
// One transport that takes it is enough; the others are named in the log, at level debug
// those that do not support such memory, since they say so themselves. InvalidParams
// for empty memory and for an overlap with memory that is registered or about to be;
// adjacent memory is fine. What peers may use they see after Publish.
func (e *Engine) Register(ctx context.Context, m Memory) (transport.RegionID, error) {
	e.join()
	r, err := e.reserve(&m)
	if err != nil {
		return 0, err
	}
	if err := e.admit(ctx, r, &m); err != nil {
		return 0, err
	}
	return r.id, nil
}

// reserve keeps others off a range of memory.
func (e *Engine) reserve(m *Memory) (*region, error) {
	if len(m.Bytes) == 0 {
		return nil, errs.New(errs.InvalidParams, "transfer: register memory", "it is empty")
	}
	r := &region{
		id: transport.RegionID(e.nextRegion.Add(1)), mem: m.Bytes, addr: memory.AddrOf(m.Bytes),
		location: cmp.Or(m.Location, matrix.Wildcard), access: m.Access, keys: make([]keyring, len(e.carriers)),
		fd: m.FD, offset: m.FDOffset,
	}
	return r, e.regions.add(r)
}

// forTransport is the region as transports have it.
func (r *region) forTransport() transport.Region {
	return transport.Region{ID: r.id, Mem: r.mem, FD: r.fd, FDOffset: r.offset, Location: r.location, Access: r.access}
}

// admit registers a reserved region with the transports, or gives it up.
func (e *Engine) admit(ctx context.Context, r *region, m *Memory) error {
	var failed error
	taken, broken := 0, false
	for i, c := range e.carriers {
		key, err := c.Transport.Register(ctx, r.forTransport())
		if err != nil {
			r.keys[i].later.Store(errs.ClassOf(err) != errs.ClassPermanent)
			failed = errors.Join(failed, errs.WithClass(errs.ClassOf(err), "transport/"+c.Name, err))
			broken = broken || !errs.Is(err, errs.NotSupported)
			continue
		}
		r.keys[i].set(key)
		taken++
	}
	if taken == 0 {
		e.regions.remove(r)
		return errs.Wrap(errs.CodeOf(failed), "transfer: register "+memory.Human(uint64(len(m.Bytes))), failed)
	}
	r.ready.Store(true)
	if failed != nil {
		level := slog.LevelWarn
		if !broken {
			level = slog.LevelDebug
		}
		e.log.Log(ctx, level, "memory is not registered with every transport", "bytes", len(m.Bytes), "error", failed)
	}
	return nil
}

// Deregister ends a region. It returns once neither a peer nor a copy within the process
// touches the memory any more; on an error the memory must not be reused or freed.
// InvalidParams for an unknown id.
func (e *Engine) Deregister(ctx context.Context, id transport.RegionID) error {
	r := e.regions.retire(id)
	if r == nil {
		return errs.New(errs.InvalidParams, "transfer: deregister memory", "no region has the id %d", id)
	}
	return e.end(ctx, r)
}

// end ends a retired region. Until it is through, nothing else is registered over it.
func (e *Engine) end(ctx context.Context, r *region) error {
	defer e.regions.remove(r)
	r.use.Lock()
	r.gone = true
	r.use.Unlock()
	var failed error
	for i, c := range e.carriers {
		if !r.keys[i].has() {
			continue
		}
		if err := c.Transport.Deregister(ctx, r.id); err != nil {
			failed = errors.Join(failed, errs.WithClass(errs.ClassOf(err), "transport/"+c.Name, err))
		}
	}
	return errs.Wrap(errs.CodeOf(failed), "transfer: deregister memory", failed)
}
