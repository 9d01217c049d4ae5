package shm

import (
	"fmt"
	"sync"

	"github.com/mooncake-go/mooncake/plugins/transport-shm/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/regionkit"
	"golang.org/x/sys/unix"
)

// region is registered memory.
type region struct {
	regionkit.Memory
	object object // zero for memory that is not open to peers

	mu      sync.Mutex
	holders map[*serverConn]uint64 // the handle under which each connection was given the region
	closing bool
	idle    chan struct{} // exists once closing; closed when the last holder is gone
}

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
type regionTable struct{ regionkit.Index[*region] }

func (t *regionTable) add(in transport.Region) (*region, error) {
	return t.Insert("transport/shm: register", in, func(m regionkit.Memory) (r *region, err error) {
		r = &region{Memory: m, holders: map[*serverConn]uint64{}}
		if in.Access != transport.AccessLocal {
			r.object, err = objectOf(in)
		}
		return r, err
	})
}

// find returns the region that a peer asks for, or why it does not get it.
func (t *regionTable) find(m *wire.Message) (*region, wire.Reason) {
	r := t.Get(transport.RegionID(m.Number))
	switch {
	case r == nil:
		return nil, wire.ReasonUnknownRegion
	case !r.Shown(regionkit.Token(m.Token)):
		return nil, wire.ReasonWrongToken
	case r.Access() == transport.AccessLocal:
		return nil, wire.ReasonNoAccess
	}
	return r, wire.ReasonNone
}

// clear forgets every region and returns how many peers still have one.
func (t *regionTable) clear() (held int) {
	for r := range t.All() {
		r.mu.Lock()
		held += len(r.holders)
		r.mu.Unlock()
	}
	t.Clear()
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
	if r.Access()&transport.AccessRemoteWrite == 0 {
		mode = unix.O_RDONLY
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", r.object.fd), mode|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, wire.ReasonNoDescriptor
	}
	return fd, wire.ReasonNone
}
