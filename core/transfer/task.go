package transfer

import (
	"errors"
	"sync/atomic"
	"time"
)

// State is how far a request is. The numbers are upstream's.
type State uint8

// The states. Those from Invalid on are terminal: a request reaches exactly one of them,
// once, and keeps it.
const (
	// Waiting: nothing of the request was handed to a transport.
	Waiting State = 0
	// Pending: a part of it was.
	Pending State = 1
	// Invalid: the request cannot be, for example a range past the address space.
	Invalid State = 2
	// Canceled by Batch.Cancel.
	Canceled State = 3
	// Completed: all bytes are in place.
	Completed State = 4
	// Timeout: the deadline passed.
	Timeout State = 5
	// Failed: for another reason, which Status.Err tells.
	Failed State = 6
)

var stateNames = [...]string{"waiting", "pending", "invalid", "canceled", "completed", "timeout", "failed"}

// String returns the name used in logs and metrics labels.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "unknown"
}

// Terminal reports whether the state is final.
func (s State) Terminal() bool { return s >= Invalid }

// Status is what is known of a request.
type Status struct {
	State State
	// Bytes arrived so far. Of a request that is not completed, nobody knows which.
	Bytes uint64
	// Err is nil unless the state is terminal and not Completed. The memory of the request
	// is not touched in a terminal state, except where errors.Is(Err, ErrQuarantined).
	Err error
	// Done is when the request ended, zero before.
	Done time.Time
}

// task is a request with its status. One goroutine at a time moves it on; any may read
// the status. err, done and sum are written before the state becomes terminal.
type task struct {
	req   Request
	index int // in the batch
	state atomic.Uint32
	moved atomic.Uint64
	err   error
	done  time.Time
	sum   sum
}

func (t *task) status() Status {
	s := Status{State: State(t.state.Load()), Bytes: t.moved.Load()}
	if s.State.Terminal() {
		s.Err, s.Done = t.err, t.done
	}
	return s
}

// finish makes the task terminal. It is called once.
func (t *task) finish(s State, err error, at time.Time) {
	t.err, t.done = err, at
	t.state.Store(uint32(s))
}

// stateOf is the terminal state of a request that ended with an error.
func stateOf(err error) State {
	switch {
	case err == nil:
		return Completed
	case errors.Is(err, ErrCanceled):
		return Canceled
	case errors.Is(err, ErrTimeout):
		return Timeout
	}
	return Failed
}
