package regionkit

import (
	"sync"
	"unsafe"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Token proves that whoever shows it was given the key of a region. Each registration has another.
type Token [16]byte

// Holder is what works with the memory of regions for a peer.
type Holder interface {
	comparable
	// Cut has the calls return soon that read or write for the peer, so that Release follows. It is
	// called by any goroutine, perhaps more than once, and neither blocks nor calls back.
	Cut()
}

// Region is registered memory. Safe for concurrent use.
type Region[H Holder] struct {
	id     transport.RegionID
	mem    []byte
	access transport.Access
	token  Token

	mu      sync.Mutex
	holders map[H]int // how often each holds it
	closing bool
	idle    chan struct{} // exists once closing; closed when the last holder left
}

// ID returns the number of the region.
func (r *Region[H]) ID() transport.RegionID { return r.id }

// Token returns what peers have to show.
func (r *Region[H]) Token() Token { return r.token }

// Access returns what peers may do with it.
func (r *Region[H]) Access() transport.Access { return r.access }

// Addr returns the address of its first byte.
func (r *Region[H]) Addr() uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(r.mem))) }

// Size returns how many bytes it has.
func (r *Region[H]) Size() uint64 { return uint64(len(r.mem)) }

func (r *Region[H]) end() uintptr { return r.Addr() + uintptr(len(r.mem)) }

// Held is how many holders work with it now.
func (r *Region[H]) Held() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.holders)
}

// hold returns a part of the memory, which stays in place until Release.
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
	r.holders[by]++
	return r.mem[offset:][:size:size], Granted
}

// Release is called once for each Granted, when nothing touches the memory for it any more.
func (r *Region[H]) Release(by H) {
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

// cut cuts off whatever still touches the memory.
func (r *Region[H]) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for h := range r.holders {
		h.Cut()
	}
}
