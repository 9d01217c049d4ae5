// Package faulty wraps a tier so that it misbehaves according to a plan. There are two sorts of
// misbehaviour:
//
//   - A Fault is one of the storage beneath a correct tier, which reports it: no wrong byte gets
//     through. Hosts test that they tolerate faults.
//   - A Bug is one of the tier itself, which breaks its contract: it says OK and lies. The conformance
//     suite tests that it detects bugs, and hosts that verify bytes themselves may use them too.
//
// For example:
//
//	plan := faulty.NewPlan()
//	plan.Fault(faulty.ReadError, faulty.When{Nth: 100})
//	x := faulty.Wrap(good, plan)
package faulty

import (
	"sync"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// Fault is what goes wrong beneath a correct tier.
type Fault uint8

// The faults.
const (
	// ReadError: the storage fails a Read (EIO), which ends with FileReadFail.
	ReadError Fault = iota + 1
	// WriteError: the storage fails a Write (EIO), which ends with FileWriteFail.
	WriteError
	// NoSpace: the storage has less space than it seemed (ENOSPC); a Write ends with
	// NoAvailableHandle.
	NoSpace
	// NotThere: a Read finds a stale, misdirected or lost record, and ends with ObjectNotFound.
	NotThere
	// Damage: a Read finds a torn record or flipped bits, and ends with ChecksumMismatch.
	Damage
	// Slow: the completion is held back until Plan.Release or Stop.
	Slow
	// Hang: the storage does not respond until Plan.Release or Stop. At its deadline the operation is
	// Quarantined, and then Returned at the end of the hang.
	Hang
)

// Bug is what a tier does wrong.
type Bug uint8

// The bugs.
const (
	// StaleRecord: a Read returns an older value of the same key and size.
	StaleRecord Bug = iota + 1
	// TornWrite: a Write keeps the first half of the value only; the rest reads as zeros.
	TornWrite
	// MisdirectedWrite: a Write overwrites the newest record of the same size.
	MisdirectedWrite
	// LostWrite: a Write that is OK keeps nothing.
	LostWrite
	// BitFlip: a Read flips a bit, and says that it verified the bytes.
	BitFlip
	// LateTouch: a Read writes to its buffer after its completion.
	LateTouch
	// Duplicate: a completion comes twice.
	Duplicate
	// NoCompletion: a completion never comes.
	NoCompletion
	// DoubleForget: to forget a record again forgets the newest record. Match is not asked.
	DoubleForget
	// CapacityLie: the tier claims twice its capacity and space. Match is not asked.
	CapacityLie
)

// When says which operations a fault or a bug affects.
type When struct {
	// Nth selects every Nth operation that matches, counted over all tiers of the plan; 0 and 1
	// select all of them. An operation that the tier does not accept counts as well.
	Nth uint64
	// Limit is the most operations that are affected; 0 for no limit.
	Limit uint64
	// Match reports whether an operation matches; nil for each of the kind that it applies to.
	Match func(tier.Op) bool
	// Class is the class of the error of ReadError and WriteError; ClassPermanent if it is
	// ClassUnknown.
	Class errs.Class
}

// Plan lists the faults and bugs of the tiers that share it. It is safe for concurrent use.
type Plan struct {
	mu       sync.Mutex
	rules    []*rule
	tiers    map[releaser]struct{}
	affected map[any]uint64
}

// releaser is a tier that holds operations back.
type releaser interface{ release() }

// rule is a fault or a bug; the other one is 0.
type rule struct {
	When
	fault Fault
	bug   Bug
	seen  uint64
	done  uint64
}

// NewPlan returns a plan without rules.
func NewPlan() *Plan { return &Plan{tiers: map[releaser]struct{}{}, affected: map[any]uint64{}} }

// Fault adds a fault. The first rule that applies to an operation determines what happens to it.
func (p *Plan) Fault(f Fault, w When) { p.add(&rule{When: w, fault: f}) }

// Bug adds a bug.
func (p *Plan) Bug(b Bug, w When) { p.add(&rule{When: w, bug: b}) }

func (p *Plan) add(r *rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, r)
}

// Clear drops all rules. Operations that are held back stay so until Release.
func (p *Plan) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = nil
}

// Count returns how many operations a Fault or a Bug has affected.
func (p *Plan) Count(what any) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.affected[what]
}

// Release ends what Slow and Hang hold back.
func (p *Plan) Release() {
	p.mu.Lock()
	var all []releaser
	for w := range p.tiers {
		all = append(all, w)
	}
	p.mu.Unlock()
	for _, w := range all {
		w.release()
	}
}

// kinds are the kinds of operation that a rule applies to; both without an entry.
var kinds = map[any]tier.Kind{
	ReadError: tier.Read, WriteError: tier.Write, NoSpace: tier.Write, NotThere: tier.Read, Damage: tier.Read,
	StaleRecord: tier.Read, TornWrite: tier.Write, MisdirectedWrite: tier.Write, LostWrite: tier.Write, BitFlip: tier.Read, LateTouch: tier.Read,
}

func (r *rule) what() any {
	if r.fault != 0 {
		return r.fault
	}
	return r.bug
}

// meet returns the rule that applies to an operation, or nil.
func (p *Plan) meet(o tier.Op) *rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.rules {
		kind, one := kinds[r.what()]
		if r.bug == DoubleForget || r.bug == CapacityLie || (one && kind != o.Kind) || (r.Match != nil && !r.Match(o)) {
			continue
		}
		if p.count(r) {
			return r
		}
	}
	return nil
}

// count reports whether a rule that matches applies. The caller holds p.mu.
func (p *Plan) count(r *rule) bool {
	if r.Limit > 0 && r.done >= r.Limit {
		return false
	}
	if r.seen++; r.seen%max(1, r.Nth) != 0 {
		return false
	}
	r.done++
	p.affected[r.what()]++
	return true
}

// has reports whether a bug applies that is not one of operations.
func (p *Plan) has(b Bug) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.rules {
		if r.bug == b && p.count(r) {
			return true
		}
	}
	return false
}

// errors of the faults, by code and default class.
var codes = map[Fault]errs.Code{
	ReadError: errs.FileReadFail, WriteError: errs.FileWriteFail, NoSpace: errs.NoAvailableHandle,
	NotThere: errs.ObjectNotFound, Damage: errs.ChecksumMismatch,
}

func (r *rule) err() error {
	class := errs.ClassPermanent
	if r.Class != errs.ClassUnknown && (r.fault == ReadError || r.fault == WriteError) {
		class = r.Class
	}
	return errs.WithClass(class, "faulty", errs.New(codes[r.fault], "", "the plan says so"))
}
