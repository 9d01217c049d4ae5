package session

import (
	"context"
	"sync"
	"time"
)

// indeterminate is how long a put whose writes may go on counts as in progress: as long as masters keep its memory
// by default.
const indeterminate = 10 * time.Minute

// puts counts the puts in progress by the epoch of the master that began them (model.PutEpoch), so that a ping can say
// which epochs this process writes for no more.
type puts struct {
	mu sync.Mutex
	// epoch is that of the master that answered last, past the hooks; since is the lowest epoch of which a ping has not
	// said that it is over.
	epoch, since uint64
	open         map[uint64]int
	hooks        []func(ctx context.Context, epoch uint64)
	running      bool // the hooks
}

// OnEpoch has f called, on a goroutine of its own, when a master of a later epoch has answered, before the master is told
// that the puts of earlier epochs are over. f returns when ctx ends, at the latest.
func (s *Session) OnEpoch(f func(ctx context.Context, epoch uint64)) {
	s.puts.mu.Lock()
	defer s.puts.mu.Unlock()
	s.puts.hooks = append(s.puts.hooks, f)
}

// PutBegins counts a put that a master of an epoch has begun, until PutOver. It returns false if this process has told a
// later master that it writes for no put of this epoch: the caller must not write.
func (s *Session) PutBegins(epoch uint64) bool {
	p := &s.puts
	p.mu.Lock()
	defer p.mu.Unlock()
	if epoch < p.since {
		return false
	}
	if p.open == nil {
		p.open = map[uint64]int{}
	}
	p.open[epoch]++
	return true
}

// PutOver ends PutBegins. mayWrite says that a peer may still write for the put: it then counts for a while longer.
func (s *Session) PutOver(epoch uint64, mayWrite bool) {
	if mayWrite {
		time.AfterFunc(indeterminate, func() { s.PutOver(epoch, false) })
		return
	}
	p := &s.puts
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open[epoch]--; p.open[epoch] == 0 {
		delete(p.open, epoch)
	}
}

// putsSince returns the epoch from which on puts of this process may be in progress, now or later.
func (s *Session) putsSince() uint64 {
	p := &s.puts
	p.mu.Lock()
	defer p.mu.Unlock()
	since := p.epoch
	for epoch := range p.open {
		since = min(since, epoch)
	}
	p.since = max(p.since, since)
	return p.since
}

// hearEpoch takes the epoch of a master that answered. If it is a later one, the hooks run first.
func (s *Session) hearEpoch(epoch uint64) {
	p := &s.puts
	p.mu.Lock()
	defer p.mu.Unlock()
	if epoch <= p.epoch || p.running {
		return
	}
	p.running = true
	hooks := p.hooks
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.tasks.Go(func() {
		for _, f := range hooks {
			f(s.ctx, epoch)
		}
		p.mu.Lock()
		p.epoch, p.running = epoch, false
		p.mu.Unlock()
		s.pingNow()
	})
}
