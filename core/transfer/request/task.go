package request

import (
	"errors"
	"sync/atomic"
	"time"
)

// The states. Those from Invalid on are terminal: a request reaches exactly one of them,
// once, and keeps it.
const (
	// Waiting: nothing of the request was handed to a transport.
	Waiting State = 0
	// Pending: some of it was.
	Pending State = 1
	// Invalid: the request is impossible, for example a range past the address space.
	Invalid State = 2
	// Canceled by Batch.Cancel.
	Canceled State = 3
	// Completed: all bytes are in place.
	Completed State = 4
	// Timeout: the deadline passed.
	Timeout State = 5
	// Failed for another reason, which is in Status.Err.
	Failed State = 6
)

// State is how far a request is. The numbers are upstream's.
type State uint8

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
	// Bytes arrived so far. For a request that is not completed, it is unknown which ones.
	Bytes uint64
	// Err is nil unless the state is terminal and not Completed. The memory of the request
	// is not touched in a terminal state, except where errors.Is(Err, ErrQuarantined).
	Err error
	// Done is when the request ended, zero before.
	Done time.Time
}

// Task is a request with its status. One goroutine at a time moves it on; any may read
// the status. err, done and sum are written before the state becomes terminal.
type Task struct {
	Req   Request
	Index int // in the batch
	State atomic.Uint32
	Moved atomic.Uint64
	Err   error
	done  time.Time
	Sum   checksum
}

// Status returns how far the task is.
func (t *Task) Status() Status {
	s := Status{State: State(t.State.Load()), Bytes: t.Moved.Load()}
	if s.State.Terminal() {
		s.Err, s.Done = t.Err, t.done
	}
	return s
}

// Finish makes the task terminal. It is called once.
func (t *Task) Finish(s State, err error, at time.Time) {
	t.Err, t.done = err, at
	t.State.Store(uint32(s))
}

// Result returns how the task ended. The task is terminal.
func (t *Task) Result() Result {
	r := Result{Err: t.Err, Done: t.done}
	if r.Summed = t.Req.Sum && t.Err == nil && t.Sum.covered == len(t.Req.Local); r.Summed {
		r.Sum = t.Sum.value
	}
	return r
}

// StateOf is the terminal state of a request that ended with an error.
func StateOf(err error) State {
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
