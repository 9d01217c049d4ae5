// Package faulty wraps a transport so that its paths misbehave according to a plan. Hosts test that
// they tolerate such transports, and the suite that it detects them.
//
//	plan := faulty.NewPlan()
//	plan.Add(faulty.Rule{Fault: faulty.Lost, Nth: 100})
//	tr := faulty.Wrap(good, plan)
//
// Bytes move as before: only the results that the caller receives are faulty.
package faulty

import (
	"sync"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Fault is what goes wrong with an operation.
type Fault uint8

// The faults.
const (
	// Duplicate: its completion comes twice.
	Duplicate Fault = iota + 1
	// Late: its completion is held back until Plan.Release, or the path's Close.
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
	mu       sync.Mutex
	rules    []*counted
	dead     bool
	held     []*path // paths that hold completions back
	affected map[Fault]uint64
}

type counted struct {
	Rule
	seen, done uint64
}

// NewPlan returns a plan without faults.
func NewPlan() *Plan { return &Plan{affected: map[Fault]uint64{}} }

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
// operations, and operations in flight fail with class transient-path.
func (p *Plan) Kill() { p.setDead(true) }

// Revive ends Kill.
func (p *Plan) Revive() { p.setDead(false) }

func (p *Plan) setDead(dead bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = dead
}

// Release releases held completions.
func (p *Plan) Release() {
	p.mu.Lock()
	held := p.held
	p.held = nil
	p.mu.Unlock()
	for _, x := range held {
		x.release()
	}
}

func (p *Plan) hold(x *path) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = append(p.held, x)
}

func (p *Plan) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// meet returns the rule that applies to an operation, or nil.
func (p *Plan) meet(o transport.Op) *Rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return &Rule{Fault: Reject}
	}
	for _, r := range p.rules {
		if (r.Match != nil && !r.Match(o)) || (r.Limit > 0 && r.done >= r.Limit) {
			continue
		}
		if r.seen++; r.seen%max(1, r.Nth) != 0 {
			continue
		}
		r.done++
		p.affected[r.Fault]++
		if r.Fault == Kill {
			p.dead = true
			return &Rule{Fault: Reject}
		}
		return &r.Rule
	}
	return nil
}

func (r *Rule) err() error {
	class := r.Class
	if class == errs.ClassUnknown {
		class = errs.ClassTransientPath
	}
	return errs.WithClass(class, "faulty", errs.New(errs.TransferFail, "", "the plan says so"))
}
