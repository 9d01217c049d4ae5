package rdma

import (
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// region is registered memory.
type region struct {
	id       transport.RegionID
	mem      []byte
	start    uint64
	location string
	access   transport.Access
	gpu      bool // the processor cannot read it
	chunk    uint64
	// mrs holds for each device the registrations of the chunks; nil where the device is a
	// mere place. Constant once the region is in use.
	mrs [][]*verbs.MR
	// ready is set when the region is in use, gone when it is being withdrawn.
	ready, gone atomic.Bool

	mu   sync.Mutex
	exit *withdrawal // the latest; nil before the first, and after one that failed was told
}

// withdrawal is one attempt to end a region. Whoever asked for it has its result.
type withdrawal struct {
	done chan struct{} // closed when err is set
	err  error
}

func (r *region) end() uint64 { return r.start + uint64(len(r.mem)) }

// lookup returns the key of the chunk that addr is in, and how far the chunk reaches.
func (r *region) lookup(addr uint64, device int) (lkey uint32, left uint64) {
	i := (addr - r.start) / r.chunk
	mr := r.mrs[device][i]
	return mr.LKey(), mr.Addr() + mr.Len() - addr
}

// regionTable holds the registered regions. Safe for concurrent use.
type regionTable struct {
	mu       sync.Mutex
	byID     map[transport.RegionID]*region
	reserved []*region // by start, never overlapping; also those not in use yet
	// active is what operations look into, by start. It is replaced, never changed.
	active atomic.Pointer[[]*region]
}

// reserve gives a region its place, before it is registered.
func (t *regionTable) reserve(in *transport.Region) (*region, error) {
	const op = "transport/rdma: register"
	switch {
	case in.ID == 0:
		return nil, errs.New(errs.InvalidParams, op, "region ID is 0, which means no region")
	case len(in.Mem) == 0:
		return nil, errs.New(errs.InvalidParams, op, "region %d is empty", in.ID)
	case in.Access&^transport.AccessRemote != 0:
		return nil, errs.New(errs.InvalidParams, op, "region %d asks for unknown access %#x", in.ID, in.Access)
	}
	r := &region{id: in.ID, mem: in.Mem, start: addressOf(in.Mem), location: in.Location, access: in.Access, gpu: gpu(in.Location)}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[in.ID] != nil {
		return nil, errs.New(errs.InvalidParams, op, "region ID %d is in use", in.ID)
	}
	i := search(t.reserved, r.start)
	if i < len(t.reserved) && t.reserved[i].start < r.end() {
		return nil, errs.New(errs.InvalidParams, op, "region %d (%d bytes) overlaps region %d", in.ID, len(in.Mem), t.reserved[i].id)
	}
	if t.byID == nil {
		t.byID = map[transport.RegionID]*region{}
	}
	t.byID[in.ID] = r
	t.reserved = slices.Insert(t.reserved, i, r)
	return r, nil
}

// search returns the index of the first region that ends after addr.
func search(rs []*region, addr uint64) int {
	i, _ := slices.BinarySearchFunc(rs, addr, func(r *region, at uint64) int {
		if r.end() <= at {
			return -1
		}
		return 1
	})
	return i
}

// activate lets operations use a region.
func (t *regionTable) activate(r *region) {
	t.mu.Lock()
	defer t.mu.Unlock()
	rs := slices.Clone(t.list())
	rs = slices.Insert(rs, search(rs, r.start), r)
	t.active.Store(&rs)
	r.ready.Store(true)
}

// deactivate is the reverse of activate.
func (t *regionTable) deactivate(r *region) {
	t.mu.Lock()
	defer t.mu.Unlock()
	rs := slices.DeleteFunc(slices.Clone(t.list()), func(x *region) bool { return x == r })
	t.active.Store(&rs)
}

// forget gives the place of a region free.
func (t *regionTable) forget(r *region) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[r.id] == r {
		delete(t.byID, r.id)
	}
	t.reserved = slices.DeleteFunc(t.reserved, func(x *region) bool { return x == r })
}

func (t *regionTable) get(id transport.RegionID) *region {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[id]
}

// list returns the regions in use, by start.
func (t *regionTable) list() []*region {
	if p := t.active.Load(); p != nil {
		return *p
	}
	return nil
}

// all returns every region, also those that could not be withdrawn.
func (t *regionTable) all() []*region {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.reserved)
}

// find returns the region that holds all of [addr, addr+size), nil for none.
func (t *regionTable) find(addr, size uint64) *region {
	rs := t.list()
	i := search(rs, addr)
	if i == len(rs) || addr < rs[i].start || size > rs[i].end()-addr {
		return nil
	}
	return rs[i]
}

func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
