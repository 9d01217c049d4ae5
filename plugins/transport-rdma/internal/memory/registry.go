package memory

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/device"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Registry holds the regions of a transport. Safe for concurrent use.
type Registry struct {
	// PinLimit returns how many bytes the process may pin; tests replace it.
	PinLimit func() uint64

	env     *device.Env
	devices []*device.Device

	mu sync.Mutex // held while regions is replaced
	// regions are by address, never overlapping; those that are not usable keep their places too. The
	// slice is replaced, never changed.
	regions atomic.Pointer[[]*Region]
}

// New returns a registry for devices that are open, or will not be.
func New(env *device.Env, devices []*device.Device) *Registry {
	g := &Registry{PinLimit: pinLimit, env: env, devices: devices}
	g.regions.Store(new([]*Region))
	return g
}

func (g *Registry) all() []*Region { return *g.regions.Load() }

// List returns the regions that are usable, by address.
func (g *Registry) List() []*Region {
	return slices.DeleteFunc(slices.Clone(g.all()), func(r *Region) bool { return !r.Usable() })
}

// Count returns the number of regions, also of those that are being withdrawn.
func (g *Registry) Count() (n int64) {
	for _, r := range g.all() {
		if r.state.Load() != registering {
			n++
		}
	}
	return n
}

// Get returns a region, nil for none.
func (g *Registry) Get(id transport.RegionID) *Region {
	for _, r := range g.all() {
		if r.ID == id {
			return r
		}
	}
	return nil
}

// Find returns the usable region that holds all of [addr, addr+size), nil for none.
func (g *Registry) Find(addr, size uint64) *Region {
	rs := g.all()
	i := search(rs, addr)
	if i == len(rs) || addr < rs[i].Start || size > rs[i].end()-addr || !rs[i].Usable() {
		return nil
	}
	return rs[i]
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
	if g.Get(in.ID) != nil {
		return nil, errs.New(errs.InvalidParams, op, "region ID %d is in use", in.ID)
	}
	rs := slices.Clone(g.all())
	i := search(rs, r.Start)
	if i < len(rs) && rs[i].Start < r.end() {
		return nil, errs.New(errs.InvalidParams, op, "region %d (%d bytes) overlaps region %d", in.ID, len(in.Mem), rs[i].ID)
	}
	rs = slices.Insert(rs, i, r)
	g.regions.Store(&rs)
	return r, nil
}

// forget gives the place of a region free.
func (g *Registry) forget(r *Region) {
	g.mu.Lock()
	defer g.mu.Unlock()
	rs := slices.DeleteFunc(slices.Clone(g.all()), func(x *Region) bool { return x == r })
	g.regions.Store(&rs)
}

// withdrawal is one attempt to end a region. All callers that wait for it get its result.
type withdrawal struct {
	done chan struct{} // closed when err is set
	err  error
}

// Deregister ends a registration. Once it has returned nil, the devices refuse requests of peers
// for the region. The withdrawal runs in the background, as part of the traffic.
func (g *Registry) Deregister(ctx context.Context, id transport.RegionID) error {
	const op = "transport/rdma: deregister"
	r := g.Get(id)
	if r == nil || r.state.Load() == registering {
		return errs.New(errs.InvalidParams, op, "region %d is not registered", id)
	}
	r.state.Store(leaving)
	r.mu.Lock()
	w := r.exit
	if w == nil {
		w = &withdrawal{done: make(chan struct{})}
		r.exit = w
		g.env.Traffic.Go(func() {
			defer close(w.done)
			if w.err = r.withdraw(); w.err == nil {
				g.forget(r)
			}
		})
	}
	r.mu.Unlock()
	select {
	case <-w.done:
	case <-ctx.Done():
		return stillInUse(op, id, ctx.Err())
	}
	if w.err == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.exit == w {
		r.exit = nil // The next call tries again.
	}
	return stillInUse(op, id, w.err)
}

func stillInUse(op string, id transport.RegionID, cause error) error {
	return &errs.Error{
		Code: errs.UnavailableInCurrentStatus, Class: errs.ClassLocalDevice, Op: op,
		Err:  fmt.Errorf("region %d may still be touched by a peer, its memory must not be reused yet: %w", id, cause),
		Hint: "deregister it again with more time",
	}
}

// Close withdraws every region. No other call is in progress.
func (g *Registry) Close() {
	for _, r := range g.all() {
		r.state.Store(leaving)
		if err := r.withdraw(); err != nil {
			g.env.Log.Error("memory could not be withdrawn", "region", r.ID, "error", err)
		}
	}
	g.regions.Store(new([]*Region))
}
