package faulty

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// path implements transport.Path. The wrapped path knows an operation by its slot, because IDs of
// operations may repeat.
type path struct {
	transport.Path
	plan *Plan

	turn   sync.Mutex      // held while the wrapped path gets an operation; taken before mu
	one    [1]transport.Op // what it gets, guarded by turn
	closed bool            // guarded by turn

	mu      sync.Mutex
	slots   []slot
	free    []uint64
	late    []*fate // what is held or delayed
	ready   []transport.Completion
	deliver func(transport.Completion) bool // nil if completions go to Reap
	round   context.Context                 // ends when ready grows; nil if no reaper waits
	wake    context.CancelFunc              // ends round
}

// slot is an operation that the wrapped path has.
type slot struct {
	id   uint64
	fate *fate // nil if nothing goes wrong
	used bool
}

// Unwrap lets transport.As find companions.
func (p *path) Unwrap() any { return p.Path }

// Extras implements transport.Extended.
func (p *path) Extras() transport.Extras {
	x := transport.ExtrasOf(p.Path)
	inner := x.Deliver
	x.Deliver = func(f func(transport.Completion) bool) {
		p.mu.Lock()
		p.deliver = f
		p.mu.Unlock()
		if inner != nil {
			inner(func(c transport.Completion) bool { p.arrive(c); return true })
		}
	}
	return x
}

// Submit implements transport.Path.
func (p *path) Submit(ops []transport.Op) (int, error) {
	p.turn.Lock()
	defer p.turn.Unlock()
	for i := range ops {
		if ok, err := p.submit(&ops[i]); !ok {
			return i, err
		}
	}
	return len(ops), nil
}

// submit reports whether it accepted one operation. The caller holds p.turn.
func (p *path) submit(o *transport.Op) (bool, error) {
	if p.closed {
		return false, transport.ErrPathClosed
	}
	e := p.plan.meet(o)
	if e.Refuse != nil {
		return false, e.Refuse
	}
	p.one[0] = *o
	if e.NoSum {
		p.one[0].Sum, p.one[0].Grains, e.NoSum = false, transport.Grains{}, false
	}
	if e == (Effect{}) {
		return p.pass(nil)
	}
	if e.Stall {
		e = e.stalled(o)
	}
	f := &fate{Effect: e, op: p.one[0]}
	if e.Late && (e.Hold || e.Delay > 0) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.hold(f)
		return true, nil
	}
	return p.move(f)
}

// move carries out an operation, as far as its fate lets it. The caller holds p.turn.
func (p *path) move(f *fate) (bool, error) {
	if f.Err != nil && !f.Partial && !f.whole {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.settle(f, transport.Completion{ID: f.op.ID})
		return true, nil
	}
	p.one[0] = f.op
	f.alter(&p.one[0])
	return p.pass(f)
}

// pass gives p.one to the wrapped path. The caller holds p.turn.
func (p *path) pass(f *fate) (bool, error) {
	p.mu.Lock()
	if len(p.free) == 0 {
		p.free, p.slots = append(p.free, uint64(len(p.slots))), append(p.slots, slot{})
	}
	at := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	p.slots[at] = slot{p.one[0].ID, f, true}
	p.mu.Unlock()
	p.one[0].ID = at
	n, err := p.Path.Submit(p.one[:])
	if n == 0 {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.take(at)
	}
	return n > 0, err
}

// take frees a slot and returns what was there. The caller holds p.mu.
func (p *path) take(at uint64) (s slot) {
	if at >= uint64(len(p.slots)) {
		return slot{id: at}
	}
	if s = p.slots[at]; s.used {
		p.slots[at] = slot{id: s.id}
		p.free = append(p.free, at)
	}
	return s
}

// arrive takes a completion of the wrapped path.
func (p *path) arrive(c transport.Completion) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.take(c.ID)
	c.ID = s.id
	switch {
	case s.fate != nil:
		p.settle(s.fate, c)
	case p.plan.dead.Load():
		p.emit(transport.Completion{ID: c.ID, Status: transport.Failed, Err: lost("the transport has died")})
	default:
		p.emit(c)
	}
}

// settle ends an operation, or holds its completion back. The caller holds p.mu.
func (p *path) settle(f *fate, c transport.Completion) {
	switch f.c = f.end(c); {
	case f.lost:
	case f.Hold || f.Delay > 0:
		p.hold(f)
	default:
		p.answer(f)
	}
}

// answer gives out the completion of an operation that goes wrong. The caller holds p.mu.
func (p *path) answer(f *fate) {
	p.emit(f.c)
	if f.Duplicate {
		p.emit(f.c)
	}
}

// hold holds an operation or its completion back. The caller holds p.mu.
func (p *path) hold(f *fate) {
	p.late = append(p.late, f)
	if !f.Hold {
		f.timer = time.AfterFunc(f.Delay, func() { p.resume(f) })
	}
}

// resume ends the delay of an operation or its completion, unless it has failed.
func (p *path) resume(f *fate) {
	if f.Late {
		p.turn.Lock()
		defer p.turn.Unlock()
	}
	if p.due(f) && f.Late {
		if ok, err := p.move(f); !ok {
			p.mu.Lock()
			defer p.mu.Unlock()
			if err == nil {
				err = lost("the path takes no more")
			}
			p.emit(transport.Completion{ID: f.op.ID, Status: transport.Failed, Err: err})
		}
	}
}

// due removes an operation from the late ones, gives its completion out if it has one, and reports
// whether it was there.
func (p *path) due(f *fate) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.late, f)
	if i < 0 {
		return false
	}
	p.late = slices.Delete(p.late, i, i+1)
	f.Hold, f.Delay = false, 0
	if !f.Late {
		p.answer(f)
	}
	return true
}

// release ends what is held.
func (p *path) release() {
	p.turn.Lock() // What Submit decided to hold is among the late ones.
	p.mu.Lock()
	held := slices.DeleteFunc(slices.Clone(p.late), func(f *fate) bool { return !f.Hold })
	p.mu.Unlock()
	p.turn.Unlock()
	for _, f := range held {
		p.resume(f)
	}
}

// cut fails what is held or delayed, and returns how many operations that are.
func (p *path) cut(why string) int {
	p.turn.Lock()
	defer p.turn.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.late)
	for _, f := range p.late {
		if f.timer != nil {
			f.timer.Stop()
		}
		p.emit(transport.Completion{ID: f.op.ID, Status: transport.Failed, Err: lost(why)})
	}
	p.late = nil
	return n
}

// emit delivers a completion, or queues it for Reap. The caller holds p.mu.
func (p *path) emit(c transport.Completion) {
	if p.deliver != nil && p.deliver(c) {
		return
	}
	p.ready = append(p.ready, c)
	if p.round != nil {
		p.wake()
		p.round = nil
	}
}

// Reap implements transport.Path.
func (p *path) Reap(ctx context.Context, dst []transport.Completion) (int, error) {
	for len(dst) > 0 {
		p.mu.Lock()
		n := copy(dst, p.ready)
		p.ready = p.ready[n:]
		if n == 0 && p.round == nil {
			p.round, p.wake = context.WithCancel(context.Background())
		}
		round := p.round
		p.mu.Unlock()
		if n > 0 {
			return n, nil
		}
		waiting, cancel := context.WithCancel(ctx)
		stop := context.AfterFunc(round, cancel)
		n, err := p.Path.Reap(waiting, dst)
		stop()
		cancel()
		for _, c := range dst[:n] {
			p.arrive(c)
		}
		switch {
		case n > 0 || round.Err() != nil: // What is ready now interrupted the wait.
		case errors.Is(err, transport.ErrPathClosed) && p.cut("the path was closed") > 0:
		case err != nil:
			return 0, err
		}
	}
	return 0, nil
}

// Close implements transport.Path.
func (p *path) Close(ctx context.Context) error {
	p.turn.Lock()
	p.closed = true
	p.turn.Unlock()
	p.cut("the path was closed")
	p.plan.mu.Lock()
	delete(p.plan.paths, p)
	p.plan.mu.Unlock()
	return p.Path.Close(ctx)
}
