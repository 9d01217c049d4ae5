// Package faulty wraps a transport so that its paths misbehave as they are told: for hosts,
// which must live with such transports, and for the suite, which must notice.
//
//	plan := faulty.NewPlan()
//	plan.Add(faulty.Rule{Fault: faulty.Lost, Nth: 100})
//	tr := faulty.Wrap(good, plan)
//
// Bytes move as before: the faults are in what the caller is told.
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
	// Fail: it completes as Failed, with the class of the rule, whatever became of it.
	Fail
	// Quarantine: as Fail, but Quarantined.
	Quarantine
	// Kill: from it on the transport is as dead as after Plan.Kill.
	Kill
)

// Rule says which operations a fault befalls.
type Rule struct {
	Fault Fault
	// Nth is every how many-th operation that matches, counted over all paths of the plan; 0
	// and 1 are each.
	Nth uint64
	// Limit is how often at most; 0 for no limit.
	Limit uint64
	// Match tells whether an operation counts; nil for each.
	Match func(transport.Op) bool
	// Class is that of the error; ClassTransientPath where it is unknown.
	Class errs.Class
}

// Plan is what goes wrong with the paths of the transports that share it. Safe for
// concurrent use.
type Plan struct {
	mu     sync.Mutex
	rules  []*counted
	dead   bool
	held   []*path // paths that hold completions back
	befell map[Fault]uint64
}

type counted struct {
	Rule
	seen, done uint64
}

// NewPlan makes a plan by which nothing goes wrong.
func NewPlan() *Plan { return &Plan{befell: map[Fault]uint64{}} }

// Add adds a rule. The first rule that meets an operation counts.
func (p *Plan) Add(r Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, &counted{Rule: r})
}

// Clear drops all rules; what is held back or dead stays so.
func (p *Plan) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = nil
}

// Count returns how many operations a fault befell.
func (p *Plan) Count(f Fault) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.befell[f]
}

// Kill lets the transports be as one whose process died: what is submitted is refused and
// what is under way fails, class transient-path, until Revive.
func (p *Plan) Kill() { p.setDead(true) }

// Revive ends Kill.
func (p *Plan) Revive() { p.setDead(false) }

func (p *Plan) setDead(dead bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = dead
}

// Release lets go of completions that are held back.
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

// meet returns the rule that befalls an operation, nil for none.
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
		p.befell[r.Fault]++
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
