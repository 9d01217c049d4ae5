package rdma

import (
	"context"
	"fmt"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// complete queues a completion. p.mu is held.
func (p *path) complete(c transport.Completion) {
	p.done = append(p.done, c)
	p.pending.Add(1)
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
			return 0, errClosed(p.name)
		}
		if p.spin() {
			continue
		}
		if !p.sleep(ctx) {
			return 0, fmt.Errorf("%s: reap: %w", p.name, ctx.Err())
		}
	}
}

// sleep waits for the next completion, or for operations to poll for. It is false when the
// context ends first.
func (p *path) sleep(ctx context.Context) bool {
	p.asleep.Add(1) // From here on Submit sees it.
	defer p.asleep.Add(-1)
	if !p.works() {
		return p.await(ctx)
	}
	p.n.asleep.Add(1)
	defer p.n.asleep.Add(-1)
	for _, d := range p.n.devices {
		for _, q := range d.list() {
			q.wake()
		}
	}
	return p.await(ctx)
}

func (p *path) await(ctx context.Context) bool {
	select {
	case <-p.ready:
		return true
	case <-ctx.Done():
		return false
	}
}

// works reports whether operations are under way.
func (p *path) works() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.active) > 0
}

// spin polls the devices that work for the path, for at most the configured time. It saves
// the way from the device's interrupt over the queue's goroutine to the reaper. It reports
// whether there may be something to take.
func (p *path) spin() bool {
	if p.n.cfg.Spin == 0 {
		return false
	}
	var queues [8]*queue
	n := p.busyQueues(queues[:])
	if n == 0 {
		return false
	}
	const polls = 16 // Between two looks at the clock, which can cost as much.
	for end := time.Now().Add(p.n.cfg.Spin); time.Now().Before(end); {
		for range polls {
			for _, q := range queues[:n] {
				q.help()
			}
			if p.pending.Load() > 0 {
				return true
			}
		}
	}
	return false
}

// busyQueues finds the queues that may have results for the path.
func (p *path) busyQueues(dst []*queue) (n int) {
	if !p.works() {
		return 0
	}
	for i, d := range p.n.devices {
		busy := false
		for j := range p.peer.Devices {
			busy = busy || p.lanes[i*len(p.peer.Devices)+j].link.load.Load() > 0
		}
		if !busy {
			continue
		}
		n += copy(dst[n:], d.list())
	}
	return n
}

// take moves completions to dst. ended says that none will come any more.
func (p *path) take(dst []transport.Completion) (n int, ended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n = copy(dst, p.done[p.reaped:])
	clear(p.done[p.reaped : p.reaped+n])
	p.reaped += n
	p.pending.Add(-int64(n))
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

// setTimer arranges for expire to run at the deadline. p.mu is held.
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
			p.abort(o, p.errDeadline(o.lane.link), true)
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

// errDeadline is the end of an operation at its deadline. It tells the latest failure of
// the link, which may be the reason.
func (p *path) errDeadline(k *link) error {
	e := &errs.Error{Code: errs.RPCTimeout, Class: errs.ClassTransientPath, Op: p.name, Err: context.DeadlineExceeded}
	if k != nil {
		e.Op = k.name
		if last := k.latest(); last != nil {
			e.Err = fmt.Errorf("%w; before: %w", context.DeadlineExceeded, last)
		}
	}
	return e
}
