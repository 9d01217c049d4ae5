// Package memory registers memory with the devices of a transport, and finds the registration of
// an address.
package memory

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Region is registered memory.
type Region struct {
	ID       transport.RegionID
	Start    uint64 // address
	Location string
	Access   transport.Access
	GPU      bool // the processor cannot read it
	// MRs holds for each device the registrations of the chunks; nil for a device that is not open.
	// Constant once the region is in use.
	MRs [][]*verbs.MR
	// Gone is set when the region is being withdrawn.
	Gone  atomic.Bool
	mem   []byte
	chunk uint64
	ready atomic.Bool // the region is in use

	mu   sync.Mutex
	exit *withdrawal // the latest; nil before the first, and after a failed one was reported
}

// withdrawal is one attempt to end a region. All callers that wait for it get its result.
type withdrawal struct {
	done chan struct{} // closed when err is set
	err  error
}

func (r *Region) end() uint64 { return r.Start + uint64(len(r.mem)) }

// Lookup returns the local key of the registration that addr is in, and how many bytes the
// registration has from there.
func (r *Region) Lookup(addr uint64, device int) (lkey uint32, left uint64) {
	i := (addr - r.Start) / r.chunk
	mr := r.MRs[device][i]
	return mr.LKey(), mr.Addr() + mr.Len() - addr
}

// reserve gives a region its place, before it is registered.
func (g *Registry) reserve(in *transport.Region) (*Region, error) {
	const op = "transport/rdma: register"
	switch {
	case in.ID == 0:
		return nil, errs.New(errs.InvalidParams, op, "region ID is 0, which means no region")
	case len(in.Mem) == 0:
		return nil, errs.New(errs.InvalidParams, op, "region %d is empty", in.ID)
	case in.Access&^transport.AccessRemote != 0:
		return nil, errs.New(errs.InvalidParams, op, "region %d asks for unknown access %#x", in.ID, in.Access)
	}
	r := &Region{ID: in.ID, mem: in.Mem, Start: AddressOf(in.Mem), Location: in.Location, Access: in.Access, GPU: OnGPU(in.Location)}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.byID[in.ID] != nil {
		return nil, errs.New(errs.InvalidParams, op, "region ID %d is in use", in.ID)
	}
	i := search(g.reserved, r.Start)
	if i < len(g.reserved) && g.reserved[i].Start < r.end() {
		return nil, errs.New(errs.InvalidParams, op, "region %d (%d bytes) overlaps region %d", in.ID, len(in.Mem), g.reserved[i].ID)
	}
	if g.byID == nil {
		g.byID = map[transport.RegionID]*Region{}
	}
	g.byID[in.ID] = r
	g.reserved = slices.Insert(g.reserved, i, r)
	return r, nil
}

// search returns the index of the first region that ends after addr.
func search(rs []*Region, addr uint64) int {
	i, _ := slices.BinarySearchFunc(rs, addr, func(r *Region, at uint64) int {
		if r.end() <= at {
			return -1
		}
		return 1
	})
	return i
}

// activate lets operations use a region.
func (g *Registry) activate(r *Region) {
	g.mu.Lock()
	defer g.mu.Unlock()
	rs := slices.Clone(g.List())
	rs = slices.Insert(rs, search(rs, r.Start), r)
	g.active.Store(&rs)
	r.ready.Store(true)
}

// deactivate is the reverse of activate.
func (g *Registry) deactivate(r *Region) {
	g.mu.Lock()
	defer g.mu.Unlock()
	rs := slices.DeleteFunc(slices.Clone(g.List()), func(x *Region) bool { return x == r })
	g.active.Store(&rs)
}

// forget gives the place of a region free.
func (g *Registry) forget(r *Region) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.byID[r.ID] == r {
		delete(g.byID, r.ID)
	}
	g.reserved = slices.DeleteFunc(g.reserved, func(x *Region) bool { return x == r })
}

// Get returns a region, nil for none.
func (g *Registry) Get(id transport.RegionID) *Region {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.byID[id]
}

// List returns the regions in use, by address.
func (g *Registry) List() []*Region {
	if p := g.active.Load(); p != nil {
		return *p
	}
	return nil
}

// all returns every region, also those that could not be withdrawn.
func (g *Registry) all() []*Region {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.reserved)
}

// Find returns the region that holds all of [addr, addr+size), nil for none.
func (g *Registry) Find(addr, size uint64) *Region {
	rs := g.List()
	i := search(rs, addr)
	if i == len(rs) || addr < rs[i].Start || size > rs[i].end()-addr {
		return nil
	}
	return rs[i]
}

// AddressOf returns the address of the first byte.
func AddressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// OnGPU reports whether a location names the memory of another device than the processor:
// "cuda:0", but not "cpu:0", "*" or "segments:...".
func OnGPU(location string) bool {
	kind, _, ok := strings.Cut(location, ":")
	return ok && kind != "cpu" && kind != "segments"
}
