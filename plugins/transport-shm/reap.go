package shm

import (
	"context"
	"fmt"
	"time"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// complete queues a completion. path.mu is held.
func (p *path) complete(c transport.Completion) {
	p.done = append(p.done, c)
	p.signal()
}

// signal leaves a token for one reaper; who takes it passes it on while there is more.
func (p *path) signal() {
	select {
	case p.ready <- struct{}{}:
	default:
	}
}

// Reap implements transport.Path.
func (p *path) Reap(ctx context.Context, dst []transport.Completion) (int, error) {
	if len(dst) == 0 {
		return 0, nil
	}
	for {
		n, ended := p.take(dst)
		if n > 0 {
			return n, nil
		}
		if ended {
			return 0, p.errClosed()
		}
		select {
		case <-p.ready:
		case <-ctx.Done():
			return 0, fmt.Errorf("%s: reap: %w", p.name, ctx.Err())
		}
	}
}

// take moves completions to dst. ended says that none will come any more.
func (p *path) take(dst []transport.Completion) (n int, ended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n = copy(dst, p.done[p.reaped:])
	clear(p.done[p.reaped : p.reaped+n])
	p.reaped += n
	if p.reaped == len(p.done) {
		p.done, p.reaped = p.done[:0], 0
	} else if p.reaped > len(p.done)/2 {
		kept := copy(p.done, p.done[p.reaped:])
		clear(p.done[kept:])
		p.done, p.reaped = p.done[:kept], 0
	}
	ended = p.closed && len(p.active) == 0 && len(p.done) == 0
	if len(p.done) > 0 || ended {
		p.signal()
	}
	return n, ended
}

// expireEvery bounds how often the deadlines of a path are looked through.
const expireEvery = time.Millisecond

// setTimer arranges for expire to run at the deadline. path.mu is held.
func (p *path) setTimer(at, now time.Time) {
	p.timerAt = at
	p.timer.Reset(max(at.Sub(now), expireEvery))
}

// expire fails the operations whose deadline has passed.
func (p *path) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	now := time.Now()
	var next time.Time
	for i := len(p.active) - 1; i >= 0; i-- {
		o := p.active[i]
		if !o.deadline.After(now) {
			p.abort(o, p.errDeadline())
			continue
		}
		if next.IsZero() || o.deadline.Before(next) {
			next = o.deadline
		}
	}
	p.timerAt = time.Time{}
	if !next.IsZero() {
		p.setTimer(next, now)
	}
}
