package ranked

import (
	"context"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Order is the part in which policies differ: it decides which object is proposed first. It works
// on the Set for which it was made. A ranked object is in a list of the set, a proposed one is in
// none. The methods are called one at a time.
type Order interface {
	// Insert ranks a new object: it links the entry into a list.
	Insert(at uint32, ev *evict.Event)
	// Access says that a known object was read, ranked or proposed.
	Access(at uint32, ev *evict.Event)
	// Next returns the ranked object that is to be proposed next, 0 when no object is
	// ranked. It may be called again without the object having left.
	Next() uint32
	// Leave says that a ranked object is proposed or removed. It is unlinked afterwards.
	Leave(at uint32)
	// Spare ranks a proposed object again: it links the entry where no object that is
	// ranked now comes after it unless that one is accessed.
	Spare(at uint32)
	// Evicted says that a proposed object was evicted. It is dropped afterwards.
	Evicted(at uint32)
}

// Sized is an Order with a use for the capacity; see evict.Sized.
type Sized interface {
	Order
	SetCapacity(bytes uint64)
}

// policy implements evict.Sized. A batch holds the lock once.
type policy[T any] struct {
	mu       sync.Mutex
	set      *Set[T]
	order    Order
	proposed uint64
}

// New makes a policy from the order that create makes for an empty set. It acquires
// nothing but memory, and is safe for concurrent use.
func New[T any](create func(*Set[T]) Order) evict.Policy {
	set := NewSet[T]()
	return &policy[T]{set: set, order: create(set)}
}

// Start implements plugin.Component; there is nothing to acquire.
func (p *policy[T]) Start(context.Context, plugin.Host) error { return nil }

// Stop implements plugin.Component; the memory goes with the policy.
func (p *policy[T]) Stop(context.Context) error { return nil }

// Record implements evict.Policy.
func (p *policy[T]) Record(_ context.Context, events []evict.Event) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range events {
		ev := &events[i]
		if ev.ID == 0 {
			continue
		}
		at := p.set.Find(ev.ID)
		switch {
		case ev.Op == evict.Insert && at == 0:
			if at = p.set.Add(ev.ID, ev.Size); at != 0 {
				p.order.Insert(at, ev)
			}
		case at == 0:
		case ev.Op == evict.Insert, ev.Op == evict.Access:
			p.order.Access(at, ev)
		case ev.Op == evict.Remove:
			p.remove(at)
		}
	}
	return nil
}

// SetCapacity implements evict.Sized.
func (p *policy[T]) SetCapacity(_ context.Context, bytes uint64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o, ok := p.order.(Sized); ok {
		o.SetCapacity(bytes)
	}
	return nil
}

// Propose implements evict.Policy.
func (p *policy[T]) Propose(_ context.Context, dst []evict.Candidate, bytes uint64) ([]evict.Candidate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for found := uint64(0); found < bytes && len(dst) < cap(dst); {
		at := p.order.Next()
		if at == 0 {
			break
		}
		p.order.Leave(at)
		p.set.Unlink(at)
		p.proposed++
		size := p.set.Size(at)
		dst = append(dst, evict.Candidate{ID: p.set.At(at).ID, Size: size})
		if found += size; found < size {
			break // past 2^64 bytes, more than anyone can want
		}
	}
	return dst, nil
}

// Resolve implements evict.Policy.
func (p *policy[T]) Resolve(_ context.Context, verdicts []evict.Verdict) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, v := range verdicts {
		at := p.set.Find(v.ID)
		switch {
		case at == 0 || p.set.Linked(at): // unknown, or not proposed
		case v.Evicted:
			p.order.Evicted(at)
			p.remove(at)
		default:
			p.proposed--
			p.order.Spare(at)
		}
	}
	return nil
}

// Stats implements evict.Policy.
func (p *policy[T]) Stats(context.Context) (evict.Stats, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return evict.Stats{Objects: p.set.Len(), Bytes: p.set.Bytes(), Proposed: p.proposed}, nil
}

// remove makes a ranked or proposed object unknown.
func (p *policy[T]) remove(at uint32) {
	if p.set.Linked(at) {
		p.order.Leave(at)
	} else {
		p.proposed--
	}
	p.set.Drop(at)
}
