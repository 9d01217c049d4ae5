package shm

import (
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/mooncake-go/mooncake/plugins/transport-shm/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"golang.org/x/sys/unix"
)

// region is registered memory.
type region struct {
	id     transport.RegionID
	mem    []byte
	access transport.Access
	token  wire.Token
	object object // zero for memory that is not open to peers

	mu      sync.Mutex
	holders map[*serverConn]uint64 // who was given the region, and under which handle
	closing bool
	idle    chan struct{} // exists once closing; closed when the last holder is gone
}

func (r *region) start() uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(r.mem))) }
func (r *region) end() uintptr   { return r.start() + uintptr(len(r.mem)) }

// grant notes that a connection gets the region, or says why it does not.
func (r *region) grant(s *serverConn, handle uint64) wire.Reason {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		return wire.ReasonDraining
	}
	if _, twice := r.holders[s]; twice {
		return wire.ReasonProtocol
	}
	r.holders[s] = handle
	s.n.stats.grants.Add(1)
	return wire.ReasonNone
}

// ungrant notes that a connection does not have the region any more.
func (r *region) ungrant(s *serverConn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.holders[s]; !ok {
		return
	}
	delete(r.holders, s)
	s.n.stats.grants.Add(-1)
	if r.closing && len(r.holders) == 0 {
		close(r.idle)
	}
}

// close ends granting the region. idle is closed once no connection holds it. tell lists the
// connections that hold it and were not told before that it is being withdrawn.
func (r *region) close() (idle <-chan struct{}, tell map[*serverConn]uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		return r.idle, nil
	}
	r.closing, r.idle = true, make(chan struct{})
	if len(r.holders) == 0 {
		close(r.idle)
	}
	tell = make(map[*serverConn]uint64, len(r.holders))
	for s, h := range r.holders {
		tell[s] = h
	}
	return r.idle, tell
}

// regionTable holds the registered regions. Safe for concurrent use.
type regionTable struct {
	mu     sync.RWMutex
	byID   map[transport.RegionID]*region
	byAddr []*region // by start, never overlapping
}

func (t *regionTable) add(in transport.Region) (*region, error) {
	const op = "transport/shm: register"
	switch {
	case in.ID == 0:
		return nil, errs.New(errs.InvalidParams, op, "region ID is 0, which means no region")
	case len(in.Mem) == 0:
		return nil, errs.New(errs.InvalidParams, op, "region %d is empty", in.ID)
	case in.Access&^transport.AccessRemote != 0:
		return nil, errs.New(errs.InvalidParams, op, "region %d asks for unknown access %#x", in.ID, in.Access)
	}
	r := &region{id: in.ID, mem: in.Mem, access: in.Access, holders: map[*serverConn]uint64{}}
	if _, err := rand.Read(r.token[:]); err != nil {
		return nil, errs.Wrap(errs.Internal, op, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID == nil {
		t.byID = map[transport.RegionID]*region{}
	}
	if t.byID[in.ID] != nil {
		return nil, errs.New(errs.InvalidParams, op, "region ID %d is in use", in.ID)
	}
	i, _ := slices.BinarySearchFunc(t.byAddr, r.start(), func(x *region, at uintptr) int {
		if x.end() <= at {
			return -1
		}
		return 1
	})
	if i < len(t.byAddr) && t.byAddr[i].start() < r.end() {
		return nil, errs.New(errs.InvalidParams, op, "region %d (%d bytes) overlaps region %d", in.ID, len(in.Mem), t.byAddr[i].id)
	}
	if in.Access != transport.AccessLocal {
		var err error
		if r.object, err = objectOf(in); err != nil {
			return nil, err
		}
	}
	t.byID[in.ID] = r
	t.byAddr = slices.Insert(t.byAddr, i, r)
	return r, nil
}

// get returns a region, nil for none.
func (t *regionTable) get(id transport.RegionID) *region {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.byID[id]
}

// find returns the region that a peer asks for, or why it does not get it.
func (t *regionTable) find(m *wire.Message) (*region, wire.Reason) {
	r := t.get(transport.RegionID(m.Number))
	switch {
	case r == nil:
		return nil, wire.ReasonUnknownRegion
	case subtle.ConstantTimeCompare(r.token[:], m.Token[:]) != 1:
		return nil, wire.ReasonWrongToken
	case r.access == transport.AccessLocal:
		return nil, wire.ReasonNoAccess
	}
	return r, wire.ReasonNone
}

func (t *regionTable) remove(r *region) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[r.id] == r {
		delete(t.byID, r.id)
		t.byAddr = slices.DeleteFunc(t.byAddr, func(x *region) bool { return x == r })
	}
}

// clear forgets every region and returns how many peers still have one.
func (t *regionTable) clear() (held int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.byID {
		r.mu.Lock()
		held += len(r.holders)
		r.mu.Unlock()
	}
	t.byID, t.byAddr = nil, nil
	return held
}

// share makes the descriptor for a peer: for reading alone where the region is. The caller closes
// it.
//
// A process of another user gets a region only when it gets nothing else with it, and not with the
// right to open the file again for writing.
func (r *region) share(foreign bool) (int, wire.Reason) {
	if foreign {
		if !r.object.whole {
			return -1, wire.ReasonPart
		}
		if err := unix.Fchmod(r.object.fd, 0o600); err != nil {
			return -1, wire.ReasonNoDescriptor
		}
	}
	mode := unix.O_RDWR
	if r.access&transport.AccessRemoteWrite == 0 {
		mode = unix.O_RDONLY
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", r.object.fd), mode|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, wire.ReasonNoDescriptor
	}
	return fd, wire.ReasonNone
}
