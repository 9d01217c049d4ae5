package lean

import (
	"time"

	"github.com/mooncake-go/mooncake/sdk/x/busypoll"
)

// A goroutine that waits for an answer reads the connection itself: being woken by another
// goroutine that reads would cost more than the call. One goroutine reads at a time, the one that
// has the turn. A goroutine of the session, the watcher, reads while no call waits, while several
// do, and for calls that last: the caller could not give those up while it reads.

const (
	// slice is how long a caller reads by itself, and so the longest that it takes to notice that
	// it was given up.
	slice = 4 * time.Millisecond
	// watchEvery is how soon the watcher reads again after the last call.
	watchEvery = 20 * time.Millisecond
)

// turn is the right to read a connection. It is in one of its channels, or with who reads.
type turn struct {
	free    chan struct{} // for whoever waits
	watcher chan struct{} // for the watcher
	dead    chan struct{} // closed when nothing is to be read any more
	over    chan struct{} // closed when the watcher has ended
	until   time.Time     // the connection's read deadline, used by the goroutine that reads
	begun   uint64        // calls so far, with mu of the session
}

func newTurn() turn {
	return turn{free: make(chan struct{}, 1), watcher: make(chan struct{}, 1), dead: make(chan struct{}), over: make(chan struct{})}
}

// await waits for an answer, or says what came before it.
func (s *session) await(e *wait, w *pending) (end, bool) {
	select { // This costs a tenth of the other.
	case <-s.turn.free:
		if s.readFor(e, w) {
			return 0, true
		}
	default:
	}
	for {
		select {
		case <-w.ready:
			return 0, true
		case <-s.turn.free:
			if s.readFor(e, w) {
				return 0, true
			}
		case <-e.caller:
			return callerEnd, false
		case <-e.own:
			return ownEnd, false
		case <-e.limit.C:
			return limitEnd, false
		}
	}
}

// readFor reads until the answer of w is there, with the turn, and gives that on. False is that
// it took too long: the watcher reads on.
func (s *session) readFor(e *wait, w *pending) bool {
	select {
	case <-w.ready: // It came with the turn.
		s.pass()
		return true
	default:
	}
	err := s.readBy(e)
	for err == nil {
		s.mu.Lock()
		if s.in.Poller = nil; len(s.calls) == 1 { // Others would wait for the processor as well as for answers.
			s.in.Poller = w.poller
		}
		s.mu.Unlock()
		if err = s.next(); err != nil {
			break
		}
		select {
		case <-w.ready:
			s.pass()
			return true
		default:
		}
	}
	if !busypoll.IsTimeout(err) {
		s.fail(err)
		<-w.ready
		return true
	}
	s.turn.watcher <- struct{}{}
	return false
}

// pass gives the turn on: to the watcher where others wait. It takes what comes for all of them, and
// none has to be woken for more than its own answer.
func (s *session) pass() {
	s.mu.Lock()
	others := len(s.calls) > 0
	s.mu.Unlock()
	if others {
		s.turn.watcher <- struct{}{}
	} else {
		s.turn.free <- struct{}{}
	}
}

// readBy limits how long who has the turn reads. The limit is moved only now and then: to do so
// costs as much as to read.
func (s *session) readBy(e *wait) error {
	now := time.Now()
	end := now.Add(slice)
	if !e.until.IsZero() && e.until.Before(end) {
		end = e.until
	} else if left := s.turn.until.Sub(now); left > slice/2 && left <= slice {
		return nil
	}
	s.turn.until = end
	return s.conn.SetReadDeadline(end)
}

// watch reads while no caller does, until the connection ends.
func (s *session) watch() {
	defer close(s.turn.over)
	tick := time.NewTimer(watchEvery)
	defer tick.Stop()
	var seen uint64
	for {
		if err := s.readIdle(); err != nil {
			s.fail(err)
			return
		}
		s.turn.free <- struct{}{}
		for reading := false; !reading; {
			tick.Reset(watchEvery)
			select {
			case <-s.turn.dead:
				return
			case <-s.turn.watcher:
				reading = true
			case <-tick.C:
				s.mu.Lock()
				quiet := s.turn.begun == seen
				seen = s.turn.begun
				s.mu.Unlock()
				if !quiet {
					continue
				}
				select {
				case <-s.turn.free:
					reading = true
				default: // Another goroutine reads, and will not for long.
				}
			}
		}
	}
}

// readIdle reads until an answer came and no goroutine waits any more.
func (s *session) readIdle() error {
	s.turn.until, s.in.Poller = time.Time{}, nil
	if err := s.conn.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	for {
		if err := s.next(); err != nil {
			return err
		}
		s.mu.Lock()
		done := len(s.calls) == 0
		s.mu.Unlock()
		if done {
			return nil
		}
	}
}

// fail ends the session. The caller has the turn and keeps it.
func (s *session) fail(err error) {
	s.ended.Store(true)
	err = s.out.Close(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.why = err
	for id, w := range s.calls {
		delete(s.calls, id)
		w.err = lost(err)
		w.ready <- struct{}{}
	}
	close(s.turn.dead)
}

// end closes the connection and waits until no goroutine reads it.
func (s *session) end(why error) {
	_ = s.out.Close(why)
	select {
	case <-s.turn.free:
		s.fail(why)
	case <-s.turn.dead: // The reading goroutine has noticed.
	}
	<-s.turn.over
}
