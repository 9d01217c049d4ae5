package evict

import (
	"context"

	"github.com/mooncake-go/mooncake/sdk/internal/seal"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// API lists the versions of this contract that this module supports.
func API() []uint { return []uint{1} }

// ID identifies an object towards a policy. The master never reuses one while the policy
// may still know it. Zero is no object.
type ID uint64

// Op says what happened to an object.
type Op uint8

// The events.
const (
	// Insert: the object became readable. An ID that is already known counts as Access.
	Insert Op = 1
	// Access: the object was read. An unknown ID is ignored: it may have been evicted a
	// moment ago.
	Access Op = 2
	// Remove: the object is gone for another reason than eviction. An unknown ID is ignored.
	Remove Op = 3
)

// Event is one thing that happened to one object.
type Event struct {
	Op Op
	ID ID
	// Size is the object's size in bytes, set on Insert.
	Size uint64
	// Parent is the object that must be present for this one to be of use: the page
	// before it in the prompt. Zero where there is none or it is not known. Set on Insert
	// and Access; the parent's own event comes first.
	Parent ID
	// Fingerprint is a hash of the object's key, set on Insert: by it a policy recognises
	// an object that comes back after its eviction, under a new ID. Zero is unknown. It is
	// the same for one key as long as the master runs; two keys may share one.
	Fingerprint uint64
}

// Candidate is a proposed victim.
type Candidate struct {
	ID   ID
	Size uint64
}

// Verdict is what the master decided about a candidate.
type Verdict struct {
	ID ID
	// Evicted is true when the object is gone. False spares it, because a lease, a pin or a write
	// protects it: the policy should rank it as if it had just been accessed, and not propose it
	// again before other objects.
	Evicted bool
}

// Stats counts what a policy holds.
type Stats struct {
	Objects  uint64 // known objects, proposed ones included
	Bytes    uint64 // the sum of their sizes
	Proposed uint64 // proposed and not yet resolved
}

// Policy ranks objects for eviction.
//
// An object is unknown, ranked, or proposed. Insert makes it ranked; Propose makes ranked
// objects proposed; Resolve makes proposed ones unknown (evicted) or ranked again
// (spared). Remove makes it unknown from either state. An Access to a proposed object is
// remembered and counts once it is spared.
type Policy interface {
	plugin.Component
	// Record applies events in order. It never refuses one; an error means that the
	// policy itself failed (its process died) and that its ranking may be stale.
	Record(ctx context.Context, events []Event) error
	// Propose appends victims to dst, best first, until their sizes add up to at least
	// bytes, the capacity of dst is used up, or nothing is left to propose, and returns
	// the result. A proposed object is not proposed again until it is resolved.
	Propose(ctx context.Context, dst []Candidate, bytes uint64) ([]Candidate, error)
	// Resolve reports the outcome for proposed objects. A verdict on an object that is not
	// proposed is ignored.
	Resolve(ctx context.Context, verdicts []Verdict) error
	// Stats returns the current counts.
	Stats(ctx context.Context) (Stats, error)
}

// Sized is a companion of Policy for one that has a use for the capacity.
type Sized interface {
	Policy
	// SetCapacity says how many bytes of memory the pool has from now on, 0 while it has none. Before the first call the
	// capacity is unknown. It comes in order with Record. Calls may repeat a value. An error has the meaning of one of Record.
	SetCapacity(ctx context.Context, bytes uint64) error
}

// SetCapacity tells a policy the capacity if it is Sized.
func SetCapacity(ctx context.Context, p Policy, bytes uint64) error {
	if s, ok := p.(Sized); ok {
		return s.SetCapacity(ctx, bytes)
	}
	return nil
}

// Factory makes policies. Obtain one from Define.
type Factory = plugin.FactoryOf[Policy]

// Define makes a Factory. defaults returns a new configuration with the defaults; create makes
// a policy from one and acquires nothing but memory. If the manifest is not a valid evict manifest,
// New and Check of the factory return the error.
func Define[C plugin.Config](m plugin.Manifest, defaults func() C, create func(C) (Policy, error)) Factory {
	return plugin.Define(seal.Token{}, plugin.KindEvict, m, defaults, create)
}
