// Package faulty wraps a transport so that its paths misbehave according to a plan. Hosts test that
// they tolerate such transports, and the suite that it detects them.
//
//	plan := faulty.NewPlan()
//	plan.Add(faulty.Rule{Fault: faulty.Lost, Nth: 100})
//	tr := faulty.Wrap(good, plan)
//
// With rules, bytes move as before: only the results that the caller receives are faulty. A function
// that Plan.Decide sets can delay, corrupt and prevent the moves too.
package faulty

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Fault is what goes wrong with an operation.
type Fault uint8

// The faults.
const (
	// Duplicate: its completion comes twice.
	Duplicate Fault = iota + 1
	// Late: its completion is held back until Plan.Release. It fails at the path's Close or Plan.Kill.
	Late
	// Lost: its completion never comes.
	Lost
	// Reject: Submit refuses it, with the class of the rule.
	Reject
	// Fail: it completes as Failed, with the class of the rule, whatever its real outcome is.
	Fail
	// Quarantine: as Fail, but Quarantined.
	Quarantine
	// Kill: from this operation on the transport is dead, as after Plan.Kill.
	Kill
)

// Rule says which operations a fault affects.
type Rule struct {
	Fault Fault
	// Nth selects every Nth operation that matches, counted over all paths of the plan; 0 and 1
	// select all of them.
	Nth uint64
	// Limit is the most operations that the rule affects; 0 for no limit.
	Limit uint64
	// Match reports whether the rule applies to an operation; nil for all of them.
	Match func(transport.Op) bool
	// Class is the class of the error; ClassTransientPath if it is ClassUnknown.
	Class errs.Class
}

// Plan lists the faults of the paths of the transports that share it. It is safe for concurrent
// use.
type Plan struct {
	dead atomic.Bool

	mu       sync.Mutex
	rules    []*counted
	decide   func(transport.Op) Effect
	paths    map[*path]struct{} // the open ones
	affected map[Fault]uint64
}

type counted struct {
	Rule
	seen, done uint64
}

// NewPlan returns a plan without faults.
func NewPlan() *Plan { return &Plan{paths: map[*path]struct{}{}, affected: map[Fault]uint64{}} }

// Decide sets the function that determines what goes wrong with operations to which no rule applies;
// nil for nothing. Submit calls it, on one goroutine of a path at a time. It must not call the path.
func (p *Plan) Decide(f func(transport.Op) Effect) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.decide = f
}

// Add adds a rule. The first rule that applies to an operation determines its fault.
func (p *Plan) Add(r Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, &counted{Rule: r})
}

// Clear drops all rules. Held completions stay held, and dead transports stay dead.
func (p *Plan) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = nil
}

// Count returns how many operations a fault has affected.
func (p *Plan) Count(f Fault) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.affected[f]
}

// Kill makes the transports behave as if their process had died: until Revive, Submit refuses
// operations, and operations in flight fail with class transient-path, those that are held or
// delayed at once. When Kill returns, no held or delayed operation moves bytes any more.
func (p *Plan) Kill() {
	p.dead.Store(true)
	for _, x := range p.open() {
		x.cut("the transport has died")
	}
}

// Revive ends Kill.
func (p *Plan) Revive() { p.dead.Store(false) }

// Release releases what is held.
func (p *Plan) Release() {
	for _, x := range p.open() {
		x.release()
	}
}

func (p *Plan) open() []*path {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.paths))
}

// meet returns what goes wrong with an operation.
func (p *Plan) meet(o *transport.Op) Effect {
	if p.dead.Load() {
		return Effect{Refuse: (&Rule{}).err()}
	}
	r, decide := p.rule(o)
	switch {
	case r != nil:
		return r.effect()
	case decide != nil:
		return decide(*o)
	}
	return Effect{}
}

// rule returns the rule that applies to an operation, or nil and the function that decides.
func (p *Plan) rule(o *transport.Op) (*Rule, func(transport.Op) Effect) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.rules {
		if (r.Match != nil && !r.Match(*o)) || (r.Limit > 0 && r.done >= r.Limit) {
			continue
		}
		if r.seen++; r.seen%max(1, r.Nth) != 0 {
			continue
		}
		r.done++
		p.affected[r.Fault]++
		if r.Fault == Kill {
			p.dead.Store(true)
		}
		return &r.Rule, nil
	}
	return nil, p.decide
}

func (r *Rule) effect() Effect {
	switch r.Fault {
	case Duplicate:
		return Effect{Duplicate: true}
	case Late:
		return Effect{Hold: true}
	case Lost:
		return Effect{lost: true}
	case Fail, Quarantine:
		return Effect{Err: r.err(), Quarantine: r.Fault == Quarantine, whole: true}
	default:
		return Effect{Refuse: r.err()}
	}
}

func (r *Rule) err() error {
	class := r.Class
	if class == errs.ClassUnknown {
		class = errs.ClassTransientPath
	}
	return errs.WithClass(class, "faulty", errs.New(errs.TransferFail, "", "the plan says so"))
}
