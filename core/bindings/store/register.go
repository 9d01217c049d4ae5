package store

import (
	"context"
	"slices"
	"sort"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// regions holds the memory that is registered with a store, by address.
type regions struct {
	mu  sync.Mutex
	all []region
}

type region struct {
	addr, size uint64
	own        bool // memory that the store allocated and registered
}

func (r *regions) add(s region) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := sort.Search(len(r.all), func(i int) bool { return r.all[i].addr >= s.addr })
	r.all = slices.Insert(r.all, i, s)
}

// has reports whether exactly this range is registered. With own it considers only memory that the
// store allocated.
func (r *regions) has(addr, size uint64, own bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.all, func(s region) bool { return s.addr == addr && s.size == size && (s.own || !own) })
}

func (r *regions) remove(addr uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = slices.DeleteFunc(r.all, func(s region) bool { return s.addr == addr })
}

// drain removes all regions and returns them.
func (r *regions) drain() []region {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.all
	r.all = nil
	return all
}

// after returns the number of registered bytes from addr on, or 0 if addr is not registered.
func (r *regions) after(addr uint64) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := sort.Search(len(r.all), func(i int) bool { return r.all[i].addr > addr }) - 1
	if i < 0 || addr-r.all[i].addr >= r.all[i].size {
		return 0
	}
	return r.all[i].size - (addr - r.all[i].addr)
}

// Register registers memory for transfers without a copy and returns 0 or a code. A dummy client
// accepts exactly one allocation of HostMemory. Registering memory again returns 0 for a dummy
// client, and for memory that the store allocated, which is registered already. Otherwise it
// returns InvalidParams.
func (s *Store) Register(addr, size uint64) Code {
	return s.one(func(ctx context.Context, o *opened) (int, error) {
		mem, ok := At(addr, size)
		if !ok || size == 0 {
			return 0, errs.New(errs.InvalidParams, "register buffer", "%d bytes at %#x are no memory", size, addr)
		}
		if o.registered.has(addr, size, o.node != nil) {
			return 0, nil
		}
		err := o.pool.RegisterBuffer(ctx, mem, "")
		if err == nil {
			o.registered.add(region{addr: addr, size: size})
		}
		return 0, err
	})
}

// Unregister unregisters memory by its first address. After an error other than InvalidParams the
// memory must not be reused yet.
func (s *Store) Unregister(addr uint64) Code {
	return s.one(func(ctx context.Context, o *opened) (int, error) {
		mem, ok := At(addr, 1)
		if !ok {
			return 0, errs.New(errs.InvalidParams, "unregister buffer", "nothing is registered at %#x", addr)
		}
		err := o.pool.UnregisterBuffer(ctx, mem)
		if !errs.Is(err, errs.InvalidParams) {
			o.registered.remove(addr)
		}
		return 0, err
	})
}
