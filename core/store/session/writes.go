package session

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/internal/boottime"
	"github.com/mooncake-go/mooncake/core/model"
)

const (
	// writeLease is how long writes may go on after the last ping was sent that the master answered.
	writeLease = 20 * time.Second
	// quiet is what pings promise of that. A few seconds after the lease the engine closes the paths that
	// have writes in flight; what the kernel of a process that died had taken is in flight for a while.
	quiet = time.Minute
	// indeterminate is how long a put whose writes may go on counts as in progress: as long as masters keep its memory
	// by default.
	indeterminate = 10 * time.Minute
)

// WriteRight names the right to write that puts have which begin now. It is lost with the next lapse.
type WriteRight uint64

// KeepAlive makes the process known to the master before its first put, and keeps it known from then
// on: the unfinished puts of a process that is known end with it. Later calls ask the master when the
// right to write has ended, as in a process that was stopped.
func (s *Session) KeepAlive(ctx context.Context) {
	if s.writer.Load() || s.writer.Swap(true) {
		if s.lapsed() && s.outage.Load() == nil {
			_ = s.Reach(ctx) // The put finds out what is wrong.
		}
		return
	}
	s.mu.Lock()
	member := len(s.members) > 0
	s.mu.Unlock()
	if !member { // A node joins by itself.
		_ = Do(ctx, s, "ReMountSegment", func(ctx context.Context) error { return s.master.RemountSegments(ctx, s.id, nil) }) // A ping tries again.
	}
	s.pingNow()
}

// WriteRight returns the right to write that puts have which begin now.
func (s *Session) WriteRight() WriteRight { return WriteRight(s.writes.lapses.Load()) }

// WriteUntil returns until when a put with a right to write may write, as far as is known now. The time
// has passed if the right is lost.
func (s *Session) WriteUntil(r WriteRight) time.Time {
	now, left := time.Now(), writeLease
	if s.writes.promised.Load() {
		left = time.Duration(s.writes.end.Load()) - s.sinceBorn()
	}
	if s.writes.lapses.Load() != uint64(r) {
		return time.Time{}
	}
	return now.Add(left)
}

func (s *Session) lapsed() bool {
	return s.writes.promised.Load() && s.sinceBorn() >= time.Duration(s.writes.end.Load())
}

func (s *Session) sinceBorn() time.Duration { return boottime.Time().Sub(s.born) }

// promise is what a ping that is sent now says of the writes.
func (s *Session) promise() time.Duration {
	if s.writes.promised.Load() {
		return quiet
	}
	return 0
}

// heard takes the answer to a ping that was sent at an instant.
func (s *Session) heard(sent time.Duration, status model.ClientStatus) {
	w := &s.writes
	lapsed := s.lapsed()
	if lapsed {
		w.lapses.Add(1)
	}
	switch {
	case status == model.ClientOK:
		w.end.Store(int64(sent + writeLease))
		if !w.promised.Swap(true) {
			s.pingNow() // To say so.
		}
	case lapsed: // The master does not know the process, so that nothing is promised to it.
		w.promised.Store(false)
	}
}

// OnEpoch has f called, on a goroutine of its own, when a master of a later epoch has answered, before the master is told
// that the puts of earlier epochs are over. f returns when ctx ends, at the latest.
func (s *Session) OnEpoch(f func(ctx context.Context, epoch uint64)) { s.puts.hook(f) }

// PutBegins counts a put that a master of an epoch has begun, until PutOver. It returns false if this process has told a
// later master that it writes for no put of this epoch: the caller must not write.
func (s *Session) PutBegins(epoch uint64) bool { return s.puts.begin(epoch) }

// PutOver ends PutBegins. mayWrite says that a peer may still write for the put: it then counts for a while longer.
func (s *Session) PutOver(epoch uint64, mayWrite bool) {
	if mayWrite {
		time.AfterFunc(indeterminate, func() { s.puts.over(epoch) })
		return
	}
	s.puts.over(epoch)
}

// hearEpoch takes the epoch of a master that answered, or of several the lowest and the highest one.
func (s *Session) hearEpoch(epoch, newest uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	later, hooks := s.puts.hear(epoch, newest)
	if !later {
		return
	}
	s.tasks.Go(func() {
		for _, f := range hooks {
			f(s.ctx, newest)
		}
		s.puts.heard(epoch, newest)
		s.pingNow()
	})
}

// comeBack makes the process known again to a master that does not know it, if no node does.
func (s *Session) comeBack(members int) {
	if members > 0 || !s.writer.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, 2*s.downTimeout())
	defer cancel()
	t0 := time.Now()
	err := s.master.RemountSegments(ctx, s.id, nil)
	s.Record("ReMountSegment", t0)
	if err == nil {
		signal(s.urgent)
	}
}
