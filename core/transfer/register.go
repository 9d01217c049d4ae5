package transfer

import (
	"context"
	"errors"
	"time"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/sdk/errs"
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
// One transport that takes it is enough; the others are named in the log. InvalidParams
// for empty memory and for an overlap. What peers may use they see after Publish.
func (e *Engine) Register(ctx context.Context, m Memory) (transport.RegionID, error) {
	if len(m.Bytes) == 0 {
		return 0, errs.New(errs.InvalidParams, "transfer: register memory", "it is empty")
	}
	if m.Location == "" {
		m.Location = "*"
	}
	r := &region{
		id: transport.RegionID(e.nextRegion.Add(1)), mem: m.Bytes, addr: memory.AddrOf(m.Bytes),
		location: m.Location, access: m.Access, keys: make([]transport.Key, len(e.carriers)),
	}
	if err := e.regions.add(r); err != nil {
		return 0, err
	}
	var failed error
	taken := 0
	for i, c := range e.carriers {
		key, err := c.Transport.Register(ctx, transport.Region{
			ID: r.id, Mem: m.Bytes, FD: m.FD, FDOffset: m.FDOffset, Location: m.Location, Access: m.Access,
		})
		if err != nil {
			failed = errors.Join(failed, errs.WithClass(errs.ClassOf(err), "transport/"+c.Name, err))
			continue
		}
		r.keys[i], taken = key, taken+1
	}
	if taken == 0 {
		e.regions.remove(r.id)
		return 0, errs.Wrap(errs.CodeOf(failed), "transfer: register "+memory.Human(uint64(len(m.Bytes))), failed)
	}
	r.ready.Store(true)
	if failed != nil {
		e.log.Warn("memory is not registered with every transport", "bytes", len(m.Bytes), "error", failed)
	}
	return r.id, nil
}

// Deregister ends a region. It returns once neither a peer nor a copy within the process
// touches the memory any more; on an error the memory must not be reused or freed.
// InvalidParams for an unknown id.
func (e *Engine) Deregister(ctx context.Context, id transport.RegionID) error {
	r := e.regions.remove(id)
	if r == nil {
		return errs.New(errs.InvalidParams, "transfer: deregister memory", "no region has the id %d", id)
	}
	r.use.Lock()
	r.gone = true
	r.use.Unlock()
	var failed error
	for i, c := range e.carriers {
		if r.keys[i] == nil {
			continue
		}
		if err := c.Transport.Deregister(ctx, id); err != nil {
			failed = errors.Join(failed, errs.WithClass(errs.ClassOf(err), "transport/"+c.Name, err))
		}
	}
	return errs.Wrap(errs.CodeOf(failed), "transfer: deregister memory", failed)
}

// Descriptor is what peers need to reach the memory that is open to them.
func (e *Engine) Descriptor() *metadata.Descriptor {
	d := &metadata.Descriptor{
		Name:            e.dir.LocalName(),
		Protocol:        "tcp",
		TCPProtoVersion: 1,
		Timestamp:       time.Now().Format("2006-01-02 15:04:05.000000"),
	}
	if e.carriers[0].Name == "rdma" {
		d.Protocol = "rdma"
	}
	var open []*region
	for _, r := range e.regions.all() {
		if r.access&transport.AccessRemote == 0 || !r.ready.Load() {
			continue
		}
		open = append(open, r)
		name := d.Name
		if d.Protocol == "rdma" {
			name = r.location
		}
		d.Buffers = append(d.Buffers, metadata.Buffer{Name: name, Addr: r.addr, Length: uint64(len(r.mem))})
	}
	for i, c := range e.carriers {
		ep := c.Transport.Endpoint()
		te := metadata.TransportEndpoint{Name: c.Name, Blob: ep.Blob, Incarnation: ep.Incarnation}
		for _, r := range open {
			if r.keys[i] != nil {
				te.Regions = append(te.Regions, metadata.RegionKey{Addr: r.addr, Length: uint64(len(r.mem)), Key: r.keys[i]})
			}
		}
		d.Transports = append(d.Transports, te)
	}
	return d
}

// Publish makes the memory that is open to peers known in the directory.
func (e *Engine) Publish(ctx context.Context) error {
	return errs.Wrap(errs.RPCFail, "transfer: publish "+e.dir.LocalName(), e.dir.Publish(ctx, e.Descriptor()))
}

// Withdraw takes what is published back.
func (e *Engine) Withdraw(ctx context.Context) error {
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
	if len(got.Transports) != len(want.Transports) {
		return false, nil
	}
	for i, t := range want.Transports {
		if got.Transports[i].Incarnation != t.Incarnation || len(got.Transports[i].Regions) != len(t.Regions) {
			return false, nil
		}
	}
	return true, nil
}
