package local

import (
	"context"
	"slices"
	"sort"
	"sync"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/store/local/internal/codec"
	"github.com/mooncake-go/mooncake/sdk/errs"
	localv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/local/v1"
)

// region is memory that is shared with the service.
type region struct {
	id       uint64
	block    *block
	alloc    *Allocator
	mem      []byte // the whole mapping
	addr     uint64
	location string
}

// regions is the table of regions, sorted by address.
type regions struct {
	mu     sync.RWMutex
	next   uint64
	sorted []*region
}

// add adds a region.
func (t *regions) add(b *block, a *Allocator, location string) *region {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next++
	mem := b.mapping.Bytes()
	g := &region{id: t.next, block: b, alloc: a, mem: mem, addr: memory.AddrOf(mem), location: location}
	i := sort.Search(len(t.sorted), func(i int) bool { return t.sorted[i].addr > g.addr })
	t.sorted = slices.Insert(slices.Clone(t.sorted), i, g)
	return g
}

func (t *regions) remove(g *region) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.sorted, g); i >= 0 {
		t.sorted = slices.Delete(slices.Clone(t.sorted), i, i+1)
	}
}

func (t *regions) all() []*region {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.sorted
}

// at returns the region that begins at the address of mem.
func (t *regions) at(mem []byte) *region {
	addr := memory.AddrOf(mem)
	for _, g := range t.all() {
		if g.addr == addr {
			return g
		}
	}
	return nil
}

// ref returns the range of a region that mem is, or false.
func (t *regions) ref(mem []byte) (codec.Ref, bool) {
	addr, n := memory.AddrOf(mem), uint64(len(mem))
	all := t.all()
	i := sort.Search(len(all), func(i int) bool { return all[i].addr > addr }) - 1
	if n == 0 || i < 0 {
		return codec.Ref{}, false
	}
	g := all[i]
	off := addr - g.addr
	if size := uint64(len(g.mem)); off >= size || n > size-off {
		return codec.Ref{}, false
	}
	return codec.Ref{Region: g.id, Offset: off, Length: n}, true
}

// refs returns the ranges of regions that mem is, or false if some of it is not shared.
func (t *regions) refs(mem [][]byte) ([]codec.Ref, bool) {
	out := make([]codec.Ref, len(mem))
	for i, m := range mem {
		ref, ok := t.ref(m)
		switch {
		case ok:
			out[i] = ref
		case len(m) == 0:
			out[i] = codec.Ref{Region: t.any()} // It is nowhere, so any region will do.
		default:
			return nil, false
		}
	}
	return out, true
}

// add shares a region with the service.
func (a *attachment) add(g *region) error {
	_, fd, err := a.ask(a.cfg.CallTimeout, &localv1.AttachRequest{Step: &localv1.AttachRequest_Add{
		Add: &localv1.AddRegion{Region: g.id, Bytes: uint64(len(g.mem)), Location: g.location},
	}}, g.block.mapping.FD())
	closeFD(fd)
	return err
}

// RegisterBuffer implements store.Pool: it shares memory with the service. mem must be exactly one
// allocation of Config.Allocator. InvalidParams for other memory and for memory that is registered.
// RPCFail while there is no service; then nothing is registered.
func (c *Client) RegisterBuffer(ctx context.Context, mem []byte, location string) error {
	if err := c.calls.Enter("local client"); err != nil {
		return err
	}
	defer c.calls.Leave()
	if _, err := c.current(ctx); err != nil {
		return err
	}
	c.change.Lock()
	defer c.change.Unlock()
	if c.regions.at(mem) != nil {
		return errs.New(errs.InvalidParams, "local client: register buffer", "the memory at %#x is registered already", memory.AddrOf(mem))
	}
	b, err := c.cfg.Allocator.use(mem)
	if err != nil {
		return err
	}
	g := c.regions.add(b, c.cfg.Allocator, location)
	a, err := c.now()
	if err == nil {
		err = a.add(g)
	}
	if err != nil {
		c.regions.remove(g)
		c.cfg.Allocator.unuse(b)
		return errs.Wrap(errs.CodeOf(err), "local client: register buffer", err)
	}
	return nil
}

// UnregisterBuffer implements store.Pool. It returns when the service no longer uses the memory.
func (c *Client) UnregisterBuffer(ctx context.Context, mem []byte) error {
	if err := c.calls.Enter("local client"); err != nil {
		return err
	}
	defer c.calls.Leave()
	c.change.Lock()
	defer c.change.Unlock()
	g := c.regions.at(mem)
	if g == nil {
		return errs.New(errs.InvalidParams, "local client: unregister buffer", "no buffer is registered at %#x", memory.AddrOf(mem))
	}
	c.regions.remove(g)
	defer g.alloc.unuse(g.block)
	a, err := c.now()
	if err != nil {
		return nil //nolint:nilerr // There is no service that could use the memory.
	}
	var fd int
	_, fd, err = a.ask(2*a.cfg.CallTimeout, &localv1.AttachRequest{Step: &localv1.AttachRequest_Drop{Drop: &localv1.DropRegion{Region: g.id}}}, -1)
	closeFD(fd)
	select {
	case <-a.ended:
		if <-a.over; a.settled {
			return nil
		}
	default:
	}
	return err
}

// any returns the ID of any region, 0 if there is none.
func (t *regions) any() uint64 {
	if all := t.all(); len(all) > 0 {
		return all[0].id
	}
	return 0
}
