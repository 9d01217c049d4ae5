package engine

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// What errors.Is finds in the errors of Register and Unregister, beside their codes.
var (
	// ErrOverlap: a part of the memory is registered already.
	ErrOverlap = errors.New("the memory overlaps registered memory")
	// ErrNotRegistered: no registered memory begins at the address.
	ErrNotRegistered = errors.New("no registered memory begins there")
)

// region is memory that the program registered.
type region struct {
	id         transport.RegionID
	addr, size uint64
}

// regions is the memory that the program registered, by its first address.
type regions struct {
	mu  sync.Mutex
	all []region // sorted by addr
}

func (r *regions) find(addr uint64) (int, bool) {
	return slices.BinarySearchFunc(r.all, addr, func(g region, a uint64) int {
		switch {
		case g.addr < a:
			return -1
		case g.addr > a:
			return 1
		}
		return 0
	})
}

// add notes a region; false where it overlaps another.
func (r *regions) add(g region) bool {
	i, _ := r.find(g.addr)
	if i > 0 && r.all[i-1].addr+r.all[i-1].size > g.addr || i < len(r.all) && g.addr+g.size > r.all[i].addr {
		return false
	}
	r.all = slices.Insert(r.all, i, g)
	return true
}

// clear forgets all regions and returns their ids.
func (r *regions) clear() []transport.RegionID {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids := make([]transport.RegionID, len(r.all))
	for i, g := range r.all {
		ids[i] = g.id
	}
	r.all = nil
	return ids
}

// Register opens memory to this engine, and to its peers where remote is set; all of the
// list or nothing. location is where the memory lives ("cpu:0", "cuda:1"), "" or "*" for
// unknown. InvalidParams for empty memory, and with ErrOverlap for memory of which a part is
// registered already; touching it is fine.
func (e *Engine) Register(list [][]byte, location string, remote bool) error {
	s, err := e.use()
	if err != nil {
		return e.failed(err)
	}
	access := transport.AccessLocal
	if remote {
		access = transport.AccessRemote
	}
	return e.failed(s.register(list, location, access))
}

func (s *session) register(list [][]byte, location string, access transport.Access) error {
	pieces := make([]transfer.Memory, len(list))
	var plan regions
	total := uint64(0)
	// One at a time: who comes second finds what the first registered.
	s.own.mu.Lock()
	defer s.own.mu.Unlock()
	plan.all = slices.Clone(s.own.all)
	for i, mem := range list {
		if len(mem) == 0 {
			return errs.New(errs.InvalidParams, "register memory", "piece %d of %d is empty", i, len(list))
		}
		g := region{addr: memory.AddrOf(mem), size: uint64(len(mem))}
		total += g.size
		if !plan.add(g) {
			return errs.WithHint(errs.Wrap(errs.InvalidParams, "register memory", ErrOverlap),
				"%d bytes at %#x; register each range once, or unregister it first", g.size, g.addr)
		}
		pieces[i] = transfer.Memory{Bytes: mem, FD: -1, Location: location, Access: access}
	}
	if len(pieces) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.bound(total))
	defer cancel()
	ids, err := s.core.Transfer.RegisterBatch(ctx, pieces)
	if err != nil {
		return err
	}
	for i, mem := range list {
		k, _ := plan.find(memory.AddrOf(mem))
		plan.all[k].id = ids[i]
	}
	s.own.all = plan.all
	return nil
}

// Unregister closes the memory that begins at each of the addresses; all or none.
// InvalidParams with ErrNotRegistered where one of them is not registered, or named twice.
// Another error means that the memory may still be touched.
func (e *Engine) Unregister(addrs []uint64) error {
	s, err := e.use()
	if err != nil {
		return e.failed(err)
	}
	return e.failed(s.unregister(addrs))
}

func (s *session) unregister(addrs []uint64) error {
	s.own.mu.Lock()
	defer s.own.mu.Unlock()
	rest := regions{all: slices.Clone(s.own.all)}
	ids := make([]transport.RegionID, len(addrs))
	for i, addr := range addrs {
		k, found := rest.find(addr)
		if !found {
			return errs.WithHint(errs.Wrap(errs.InvalidParams, "unregister memory", ErrNotRegistered), "%#x", addr)
		}
		ids[i] = rest.all[k].id
		rest.all = slices.Delete(rest.all, k, k+1)
	}
	if len(ids) == 0 {
		return nil
	}
	s.own.all = rest.all
	ctx, cancel := context.WithTimeout(s.ctx, s.bound(0))
	defer cancel()
	return s.core.Transfer.DeregisterBatch(ctx, ids)
}
