package pluginhost

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// running is one process while it is in use.
type running[T any] struct {
	process[T]
	timeouts rounds       // of calls
	silent   atomic.Int32 // pings in a row without an answer
	health   chan plugin.Health
	gone     chan struct{} // closed once it is collected and its operations are complete
	gen      atomic.Value  // what the carrier keeps of a process that was started

	// calls guards shut. Each call holds it shared.
	calls sync.RWMutex
	shut  bool
}

// watch follows a process to its end.
func (s *supervisor[T]) watch(p process[T]) *running[T] {
	r := &running[T]{process: p, health: make(chan plugin.Health, 1), gone: make(chan struct{})}
	s.watchers.Go(func() {
		s.collect(r)
		close(r.gone)
	})
	if p, ok := p.(interface {
		Ping(ctx context.Context) error
	}); ok && s.bounds.PulseEvery > 0 {
		s.watchers.Go(func() { s.pulse(r, p.Ping) })
	}
	return r
}

// collect waits for the end of a process, takes it out of use, and completes its operations in
// flight.
func (s *supervisor[T]) collect(r *running[T]) {
	<-r.reaped()
	s.current.CompareAndSwap(r, nil)
	s.over(r)
	if p, ok := r.process.(interface{ Broke() string }); ok && p.Broke() != "" && s.bounds.Broken != nil {
		s.bounds.Broken(p.Broke())
	}
	<-r.Done()
	s.edit(func(in *Instance) {
		in.Ended, in.Log = r.Ending(), nil
		if p, ok := r.process.(interface{ Lines() []string }); ok {
			in.Log = p.Lines()
		}
	})
}

// over completes the operations in flight of a process that was collected.
func (s *supervisor[T]) over(r *running[T]) {
	if s.carry != nil {
		s.carry.lost(r)
	}
	if o, ok := any(r.Object()).(interface{ Ended() }); ok {
		o.Ended()
	}
	if s.carry != nil {
		s.carry.ended(r)
	}
}

// reaped is closed once the process is collected. Done may be closed later, once the last lines
// of the log are read.
func (r *running[T]) reaped() <-chan struct{} {
	if p, ok := r.process.(interface{ Reaped() <-chan struct{} }); ok {
		return p.Reaped()
	}
	return r.Done()
}

// ended reports whether the process is gone.
func (r *running[T]) ended() bool {
	select {
	case <-r.reaped():
		return true
	default:
		return false
	}
}

// about returns the version and the checksum of the program, empty if they are not known.
func (r *running[T]) about() (version, sum string) {
	if p, ok := r.process.(interface{ About() (string, string) }); ok {
		return p.About()
	}
	return "", ""
}

// pulse pings a process regularly, since calls may be rare.
func (s *supervisor[T]) pulse(r *running[T], ping func(context.Context) error) {
	tick := time.NewTicker(s.bounds.PulseEvery)
	defer tick.Stop()
	for {
		select {
		case <-r.gone:
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(s.ctx, s.bounds.CallTimeout)
		err := ping(ctx)
		cancel()
		switch {
		case !errs.Is(err, errs.RPCTimeout):
			r.silent.Store(0)
		case int(r.silent.Add(1)) == s.bounds.MaxTimeouts:
			s.silence(r, err)
		}
	}
}

// rounds counts timeouts in a row. Calls that wait at the same time are one round: they prove the same silence, however many
// callers there are.
type rounds struct {
	n  atomic.Int32
	mu sync.Mutex
	at time.Time // when the last round was counted
}

// missed counts a call that began at a time and was not answered. It returns the number of rounds, 0 if the call belongs to a round
// that was counted.
func (c *rounds) missed(began time.Time) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if began.Before(c.at) {
		return 0
	}
	c.at = time.Now()
	return int(c.n.Add(1))
}

// answered ends the row.
func (c *rounds) answered() { c.n.Store(0) }

// observe counts the calls of a process that timed out in a row.
func (s *supervisor[T]) observe(ctx context.Context, r *running[T], began time.Time, err error) {
	switch {
	case !errs.Is(err, errs.RPCTimeout):
		r.timeouts.answered()
	case ctx.Err() == nil && r.timeouts.missed(began) == s.bounds.MaxTimeouts:
		s.silence(r, err)
	}
}

// observer returns observe for the calls of a carrier. When they began is not known: one that timed out did so at least
// CallTimeout ago.
func (s *supervisor[T]) observer(r *running[T]) func(context.Context, error) {
	return func(ctx context.Context, err error) { s.observe(ctx, r, time.Now().Add(-s.bounds.CallTimeout), err) }
}

// silence kills a process that does not answer.
func (s *supervisor[T]) silence(r *running[T], err error) {
	s.logger(s.log).Error("plugin does not answer and is killed", "pid", r.PID(), "timeouts", s.bounds.MaxTimeouts, "error", err)
	r.Kill()
}
