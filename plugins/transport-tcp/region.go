package tcp

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// region is registered memory. holders counts, for each connection, the requests that
// touch it now.
type region struct {
	id     transport.RegionID
	mem    []byte
	access transport.Access
	token  token

	mu      sync.Mutex
	holders map[*serverConn]int
	closing bool
	idle    chan struct{} // exists once closing; closed when the last holder left
}

func (r *region) start() uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(r.mem))) }
func (r *region) end() uintptr   { return r.start() + uintptr(len(r.mem)) }

// regionTable holds the registered regions. Safe for concurrent use.
type regionTable struct {
	mu     sync.RWMutex
	byID   map[transport.RegionID]*region
	byAddr []*region // by start, never overlapping
}

func (t *regionTable) add(in transport.Region) (*region, error) {
	const op = "transport/tcp: register"
	switch {
	case in.ID == 0:
		return nil, errs.New(errs.InvalidParams, op, "region ID is 0, which means no region")
	case len(in.Mem) == 0:
		return nil, errs.New(errs.InvalidParams, op, "region %d is empty", in.ID)
	case in.Access&^transport.AccessRemote != 0:
		return nil, errs.New(errs.InvalidParams, op, "region %d asks for unknown access %#x", in.ID, in.Access)
	}
	r := &region{id: in.ID, mem: in.Mem, access: in.Access, holders: map[*serverConn]int{}}
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
	i := t.search(r.start())
	if i < len(t.byAddr) && t.byAddr[i].start() < r.end() {
		return nil, errs.New(errs.InvalidParams, op, "region %d (%d bytes) overlaps region %d", in.ID, len(in.Mem), t.byAddr[i].id)
	}
	t.byID[in.ID] = r
	t.byAddr = slices.Insert(t.byAddr, i, r)
	return r, nil
}

// acquire checks a request and keeps the region in place until release. It returns the
// memory that the request names, or the reason why not.
func (t *regionTable) acquire(h *header, by *serverConn) (*region, []byte, reason) {
	t.mu.RLock()
	r := t.byID[transport.RegionID(h.Region)]
	t.mu.RUnlock()
	if r == nil {
		return nil, nil, reasonUnknownRegion
	}
	if subtle.ConstantTimeCompare(r.token[:], h.Token[:]) != 1 {
		return nil, nil, reasonWrongToken
	}
	if h.Type == frameRead && r.access&transport.AccessRemoteRead == 0 {
		return nil, nil, reasonReadDenied
	}
	if h.Type == frameWrite && r.access&transport.AccessRemoteWrite == 0 {
		return nil, nil, reasonWriteDenied
	}
	size := uint64(len(r.mem))
	if h.Offset > size || uint64(h.Length) > size-h.Offset {
		return nil, nil, reasonRange
	}
	return r.hold(by, h.Offset, uint64(h.Length))
}

// search returns the index of the first region that ends after an address. t.mu is held.
func (t *regionTable) search(at uintptr) int {
	i, _ := slices.BinarySearchFunc(t.byAddr, at, func(x *region, at uintptr) int {
		if x.end() <= at {
			return -1
		}
		return 1
	})
	return i
}

// hold keeps the region in place until release, and returns a part of its memory.
func (r *region) hold(by *serverConn, offset, size uint64) (*region, []byte, reason) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		return nil, nil, reasonDraining
	}
	r.holders[by]++
	return r, r.mem[offset : offset+size], reasonNone
}

func (r *region) release(by *serverConn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.holders[by]--; r.holders[by] <= 0 {
		delete(r.holders, by)
	}
	if r.closing && len(r.holders) == 0 {
		close(r.idle)
	}
}

// close refuses new requests; the channel is closed once nothing touches the memory.
func (r *region) close() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closing {
		r.closing, r.idle = true, make(chan struct{})
		if len(r.holders) == 0 {
			close(r.idle)
		}
	}
	return r.idle
}

// cut closes the connections that still touch the memory.
func (r *region) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.holders {
		_ = c.conn.Close() // Ends the read or write that holds the region.
	}
}

// remove ends a region. Connections that are still at it after grace are closed. It may
// be called again after its context ended.
func (t *regionTable) remove(ctx context.Context, id transport.RegionID, grace time.Duration) error {
	const op = "transport/tcp: deregister"
	t.mu.RLock()
	r := t.byID[id]
	t.mu.RUnlock()
	if r == nil {
		return errs.New(errs.InvalidParams, op, "region %d is not registered", id)
	}
	idle := r.close()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
		r.cut()
		select {
		case <-idle:
		case <-ctx.Done():
			return stillInUse(op, id, ctx.Err())
		}
	case <-ctx.Done():
		r.cut()
		return stillInUse(op, id, ctx.Err())
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[id] == r {
		delete(t.byID, id)
		t.byAddr = slices.DeleteFunc(t.byAddr, func(x *region) bool { return x == r })
	}
	return nil
}

func stillInUse(op string, id transport.RegionID, cause error) error {
	return &errs.Error{
		Code: errs.UnavailableInCurrentStatus, Class: errs.ClassLocalDevice, Op: op,
		Err:  fmt.Errorf("region %d may still be touched by a peer, its memory must not be reused yet: %w", id, cause),
		Hint: "deregister it again with more time",
	}
}

// clear forgets every region. The caller has ended all connections before.
func (t *regionTable) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byID, t.byAddr = nil, nil
}
