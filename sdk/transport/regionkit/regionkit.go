// Package regionkit is the half of serving peers that is the same in every transport that moves the
// bytes itself: the table of registered regions, what a request of a peer is checked against, and
// how a region is withdrawn that peers are still at.
//
// Register calls Add and makes a key of what it returns; Deregister calls Remove. The goroutine
// that reads a request calls Acquire, works with the memory that it gets, and calls Release. What
// works with memory is a Holder, a connection or a single request, which Remove can cut off.
//
// The package imports the standard library, sdk/transport and sdk/errs only.
package regionkit

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Token proves that the peer which shows it was given the key of a region. Each registration has
// another.
type Token [16]byte

// Holder is what works with the memory of regions for a peer.
type Holder interface {
	comparable
	// Cut has the calls return soon that read or write for the peer, so that Release follows. It is
	// called by any goroutine, perhaps more than once, and neither blocks nor calls back.
	Cut()
}

// Memory is registered memory. Embed it in the region of a transport that has no Table.
type Memory struct {
	id     transport.RegionID
	mem    []byte
	access transport.Access
	guard  transport.Guard
	grants transport.Grants
	token  Token
}

func (m *Memory) memory() *Memory { return m }

// ID returns the number of the region.
func (m *Memory) ID() transport.RegionID { return m.id }

// Token returns what peers have to show.
func (m *Memory) Token() Token { return m.token }

// Access returns what peers may do with it.
func (m *Memory) Access() transport.Access { return m.access }

// Addr returns the address of its first byte.
func (m *Memory) Addr() uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(m.mem))) }

// Size returns how many bytes it has.
func (m *Memory) Size() uint64 { return uint64(len(m.mem)) }

func (m *Memory) end() uintptr { return m.Addr() + uintptr(len(m.mem)) }

// Shown reports whether a peer that shows a token was given the key of the region.
func (m *Memory) Shown(token Token) bool {
	return subtle.ConstantTimeCompare(m.token[:], token[:]) == 1
}

// Region is registered memory with its holders. Safe for concurrent use.
type Region[H Holder] struct {
	Memory
	mu      sync.Mutex
	holders map[H]held
	closing bool
	idle    chan struct{} // exists once closing; closed when the last holder left
}

// held is what a holder has of a region.
type held struct {
	times int // how often it holds the region
	// write and more are its writes that the guard knows: one as a rule.
	write transport.WriteID
	more  []transport.WriteID
}

func (h *held) add(w transport.WriteID) {
	if h.write == 0 {
		h.write = w
	} else {
		h.more = append(h.more, w)
	}
}

// ended tells the guard that the writes are over.
func (h *held) ended(g transport.Guard) {
	if h.write == 0 {
		return
	}
	g.EndWrite(h.write)
	for _, w := range h.more {
		g.EndWrite(w)
	}
	h.write, h.more = 0, nil
}

// Held is how many holders work with it now.
func (r *Region[H]) Held() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.holders)
}

// hold returns a part of the memory, which stays in place until Release. The guard of the region is asked last, with
// the region locked, so that it knows every write that was granted.
func (r *Region[H]) hold(by H, kind transport.OpKind, offset, size uint64) ([]byte, Refusal) {
	switch {
	case kind == transport.Read && r.access&transport.AccessRemoteRead == 0:
		return nil, ReadDenied
	case kind == transport.Write && r.access&transport.AccessRemoteWrite == 0:
		return nil, WriteDenied
	case offset > r.Size() || size > r.Size()-offset:
		return nil, OutOfRange
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		return nil, Draining
	}
	h := r.holders[by]
	if kind == transport.Write && r.guard != nil && size > 0 {
		w := r.guard.BeginWrite(offset, size, by)
		if w == 0 {
			return nil, WriteEnded
		}
		h.add(w)
	}
	h.times++
	r.holders[by] = h
	return r.mem[offset:][:size:size], Granted
}

// Release is called once for each Granted, when nothing touches the memory for it any more. To a guard, the writes of
// a holder end when the holder has released all that it holds of the region; ReleaseWrite ends them earlier.
func (r *Region[H]) Release(by H) { r.release(by, false) }

// ReleaseWrite is Release for a holder that is at no other write into the region: it may still hold the region for
// reads.
func (r *Region[H]) ReleaseWrite(by H) { r.release(by, true) }

func (r *Region[H]) release(by H, written bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.holders[by]
	h.times--
	if written || h.times <= 0 {
		h.ended(r.guard)
	}
	if h.times <= 0 {
		delete(r.holders, by)
	} else {
		r.holders[by] = h
	}
	if r.closing && len(r.holders) == 0 {
		close(r.idle)
	}
}

// close refuses new requests; the channel is closed once nothing touches the memory.
func (r *Region[H]) close() <-chan struct{} {
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

// cut cuts off all holders that still touch the memory.
func (r *Region[H]) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for h := range r.holders {
		h.Cut()
	}
}

// Refusal is why a request of a peer does not get at memory. A transport says it to the peer in its
// own numbers.
type Refusal uint8

// The refusals.
const (
	Granted       Refusal = iota // none
	UnknownRegion                // there is no such region (any more)
	WrongToken                   // the key was not issued for this region
	OutOfRange                   // the range reaches past the end
	ReadDenied                   // peers may not read
	WriteDenied                  // peers may not write
	Draining                     // the region is being withdrawn
	WriteEnded                   // the guard of the region lets no peer write there (any more)
	GrantMissing                 // the region needs a grant, and the request has none
	GrantWrong                   // the grant is not for that peer, direction or range
	GrantOver                    // the time of the grant is over
)

// Request is what a peer asks for: a range of a region.
type Request struct {
	Region transport.RegionID
	Token  Token
	Kind   transport.OpKind
	Offset uint64
	Length uint64
	// Grant is what the peer shows, nil for nothing, and By who it is. They count where the region has Grants.
	Grant *transport.Grant
	By    transport.Subject
}

// granted asks the Grants of the region.
func (m *Memory) granted(q *Request) Refusal {
	if m.grants == nil {
		return Granted
	}
	switch m.grants.Check(q.Grant, q.By, q.Kind, q.Offset, q.Length) {
	case transport.GrantGood:
		return Granted
	case transport.GrantMissing:
		return GrantMissing
	case transport.GrantOver:
		return GrantOver
	default:
		return GrantWrong
	}
}

// Index finds regions by their numbers and addresses. R points to a struct that embeds a Memory.
// The zero value is ready. Safe for concurrent use.
type Index[R interface {
	comparable
	memory() *Memory
}] struct {
	mu     sync.RWMutex
	byID   map[transport.RegionID]R
	byAddr []*Memory // by address, never overlapping
}

// Insert registers a region, with a token of its own: the one that create makes of the memory,
// unless it returns an error. InvalidParams for what the contract of Register forbids; op begins
// the text of the error ("transport/x: register").
func (t *Index[R]) Insert(op string, in transport.Region, create func(Memory) (R, error)) (r R, err error) {
	switch {
	case in.ID == 0:
		return r, errs.New(errs.InvalidParams, op, "region ID is 0, which means no region")
	case len(in.Mem) == 0:
		return r, errs.New(errs.InvalidParams, op, "region %d is empty", in.ID)
	case in.Access&^transport.AccessRemote != 0:
		return r, errs.New(errs.InvalidParams, op, "region %d asks for unknown access %#x", in.ID, in.Access)
	}
	m := Memory{id: in.ID, mem: in.Mem, access: in.Access, guard: in.Guard, grants: in.Grants}
	_, _ = rand.Read(m.token[:]) // It never fails.
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID == nil {
		t.byID = map[transport.RegionID]R{}
	}
	if _, ok := t.byID[in.ID]; ok {
		return r, errs.New(errs.InvalidParams, op, "region ID %d is in use", in.ID)
	}
	i := t.search(m.Addr())
	if i < len(t.byAddr) && t.byAddr[i].Addr() < m.end() {
		return r, errs.New(errs.InvalidParams, op, "region %d (%d bytes) overlaps region %d", in.ID, len(in.Mem), t.byAddr[i].id)
	}
	if r, err = create(m); err == nil {
		t.byID[in.ID] = r
		t.byAddr = slices.Insert(t.byAddr, i, r.memory())
	}
	return r, err
}

// search returns the index of the first region that ends after an address. t.mu is held.
func (t *Index[R]) search(at uintptr) int {
	i, _ := slices.BinarySearchFunc(t.byAddr, at, func(x *Memory, at uintptr) int {
		if x.end() <= at {
			return -1
		}
		return 1
	})
	return i
}

// Get returns a region, nil for none.
func (t *Index[R]) Get(id transport.RegionID) R {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.byID[id]
}

// at returns the region that holds an address, nil for none.
func (t *Index[R]) at(addr uintptr) (r R) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if i := t.search(addr); i < len(t.byAddr) && t.byAddr[i].Addr() <= addr {
		r = t.byID[t.byAddr[i].id]
	}
	return r
}

// All yields the regions in the order of their addresses, those of the moment of the call.
func (t *Index[R]) All() iter.Seq[R] {
	t.mu.RLock()
	defer t.mu.RUnlock()
	all := make([]R, len(t.byAddr))
	for i, m := range t.byAddr {
		all[i] = t.byID[m.id]
	}
	return slices.Values(all)
}

// Delete forgets a region.
func (t *Index[R]) Delete(r R) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := r.memory()
	if t.byID[m.id] == r {
		delete(t.byID, m.id)
		t.byAddr = slices.DeleteFunc(t.byAddr, func(x *Memory) bool { return x == m })
	}
}

// Clear forgets every region. The caller has ended all transfers that touched them.
func (t *Index[R]) Clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byID, t.byAddr = nil, nil
}

// Table holds the registered regions of a transport that moves the bytes of peers itself. The zero
// value is ready. Safe for concurrent use.
type Table[H Holder] struct{ Index[*Region[H]] }

// Add registers a region as Insert does.
func (t *Table[H]) Add(op string, in transport.Region) (*Region[H], error) {
	return t.Insert(op, in, func(m Memory) (*Region[H], error) {
		return &Region[H]{Memory: m, holders: map[H]held{}}, nil
	})
}

// Acquire checks a request. Granted gives the memory that it names, and the region, which stays in
// place until Release.
func (t *Table[H]) Acquire(q Request, by H) (*Region[H], []byte, Refusal) {
	r := t.Get(q.Region)
	if r == nil {
		return nil, nil, UnknownRegion
	}
	if !r.Shown(q.Token) {
		return nil, nil, WrongToken
	}
	if why := r.granted(&q); why != Granted {
		return r, nil, why
	}
	mem, why := r.hold(by, q.Kind, q.Offset, q.Length)
	return r, mem, why
}

// AcquireAt is Acquire for peers that have neither keys nor grants and name memory by its address alone. To them a
// region that is closed to peers does not exist.
func (t *Table[H]) AcquireAt(kind transport.OpKind, addr, size uint64, by H) (*Region[H], []byte, Refusal) {
	r := t.at(uintptr(addr))
	if r == nil || r.access == transport.AccessLocal {
		return nil, nil, UnknownRegion
	}
	mem, why := r.hold(by, kind, addr-uint64(r.Addr()), size)
	return r, mem, why
}

// Remove withdraws a region: new requests are refused, and when nothing touches the memory any more
// it returns. Holders that are still at it after grace, or when the context ends, are cut. When the
// context ends before they have let go the error says that the memory must not be reused yet, and
// Remove may be called again.
func (t *Table[H]) Remove(ctx context.Context, op string, id transport.RegionID, grace time.Duration) error {
	r := t.Get(id)
	if r == nil {
		return errs.New(errs.InvalidParams, op, "region %d is not registered", id)
	}
	idle := r.close()
	patient, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	select {
	case <-idle:
	case <-patient.Done():
		r.cut()
		select {
		case <-idle:
		case <-ctx.Done():
			return &errs.Error{
				Code: errs.UnavailableInCurrentStatus, Class: errs.ClassLocalDevice, Op: op,
				Err:  fmt.Errorf("region %d may still be touched by a peer, its memory must not be reused yet: %w", id, ctx.Err()),
				Hint: "deregister it again with more time",
			}
		}
	}
	t.Delete(r)
	return nil
}
