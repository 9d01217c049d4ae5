// Package request defines the requests to a transfer engine, and their states and results.
package request

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

// ErrQuarantined is in the chain of the error of a request whose memory may still be touched: the
// local buffer of a read, the peer's range of a write. It must not be used for anything else.
var ErrQuarantined = errors.New("the memory may still be touched by the failed operation")

// What errors.Is finds in the errors of an Engine.
var (
	// ErrTimeout: the deadline of the request passed.
	ErrTimeout = errors.New("the deadline passed")
	// ErrCanceled: the batch was cancelled.
	ErrCanceled = errors.New("the batch was cancelled")
	// ErrLapsed: Request.Until is over.
	ErrLapsed = errors.New("the time in which operations may begin is over")
	// ErrStalled: nothing came from the peer of a hasty read for a moment.
	ErrStalled = errors.New("the peer has been silent for a moment")
	// ErrTooManyRequests: the batch has no space for the request, or the engine for the batch.
	ErrTooManyRequests = errors.New("too many requests")
	// ErrBatchBusy: a request of the batch is not in a terminal state.
	ErrBatchBusy = errors.New("the batch is busy")
	// ErrStaleBatch: no batch of this engine has the id; it was freed, or is another's.
	ErrStaleBatch = errors.New("no such batch")
)

// Request asks for one range of bytes to be moved.
type Request struct {
	Kind transport.OpKind
	// Local is this side's memory. It must not be changed (a write) or used (a read) until Transfer
	// returned or the request's state is terminal.
	Local []byte
	// Peer is the name under which the other side published itself.
	Peer string
	// Addr is the first byte in the peer's address space. [Addr, Addr+len(Local)) lies in memory
	// that the peer registered.
	Addr uint64
	// Deadline ends the request; zero means Config.Timeout from now. The context's deadline counts
	// as well.
	Deadline time.Time
	// Until, where set, gives the time until which the request may go on, as far as is known when it is
	// called: it may be later the next time. Once it is over, nothing more is submitted, and the engine
	// closes the paths that still have operations in flight. It must be quick, and the same for all
	// requests of a call.
	Until func() time.Time
	// Hasty marks a write for which the caller has another place, and a read for which it has another
	// copy: the engine gives up a peer whose process stands still as soon as the transport can tell.
	// See transport.Op. A read ends with ErrStalled then, and does not back the peer off, since others
	// have to wait for it.
	Hasty bool
	// Sum asks for the checksum of the bytes (CRC-32C) where moving them gives it: see
	// Result.Summed.
	Sum bool
	// Grains asks for the checksum of each grain of the bytes where moving them gives them: see
	// Result.Grained.
	Grains transport.Grains
	// Grant is what the request shows to a peer that serves only what a master allowed; nil for nothing.
	Grant *transport.Permit
}

// Result is how a request ended.
type Result struct {
	// Err is nil when all bytes are in place; else an unknown subset of them was moved. It carries
	// an errs.Code and an errs.Class.
	Err error
	// Done is when the last byte arrived or the request was given up.
	Done time.Time
	// Sum is the checksum of the bytes that were stored, where Summed says so: the request asked
	// for it, all bytes are in place, and the transport or the copy computed it while moving them.
	Sum    uint32
	Summed bool
	// Grained says the same of the checksums in Request.Grains, which are undefined without it.
	Grained bool
}

// Validate returns InvalidParams for an impossible request.
func (r *Request) Validate() error {
	n := uint64(len(r.Local))
	switch {
	case r.Kind != transport.Read && r.Kind != transport.Write:
		return errs.New(errs.InvalidParams, "transfer", "the direction %d is neither read nor write", r.Kind)
	case r.Peer == "":
		return errs.New(errs.InvalidParams, "transfer", "the request names no peer")
	case r.Addr+n < r.Addr:
		return errs.New(errs.InvalidParams, "transfer", "%d bytes at address %#x run over the end of the address space", n, r.Addr)
	}
	return nil
}

const (
	// leastRate is the least speed of a peer that is of use, in bytes per second.
	leastRate = 8 << 10
	// leastTime is what a transfer gets whatever its size.
	leastTime = 30 * time.Second
	// longest keeps additions of times from overflowing.
	longest = 365 * 24 * time.Hour
)

// Patience bounds a transfer of so many bytes that is to go on as long as bytes move: it ends one
// to a peer that sends a byte occasionally. It is 30 s and a second for each 8 KiB. A transfer to a
// peer that is silent ends by Config.SliceTimeout.
func Patience(bytes uint64) time.Duration {
	return leastTime + time.Duration(min(float64(bytes)/leastRate, longest.Seconds())*float64(time.Second))
}

// checksum collects the checksum of a request: those of ranges, in any order, each shifted by the
// bytes that follow it.
type checksum struct {
	value   uint32
	covered int // bytes
}

// Add takes in the checksum of n bytes that rest bytes of the request follow.
func (s *checksum) Add(value uint32, n, rest int) {
	s.value ^= crc32c.Shift(value, uint64(rest))
	s.covered += n
}

// The states. Those from Invalid on are terminal: a request reaches exactly one of them, once, and
// keeps it.
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
	// Err is nil unless the state is terminal and not Completed. The memory of the request is not
	// touched in a terminal state, except where errors.Is(Err, ErrQuarantined).
	Err error
	// Done is when the request ended, zero before.
	Done time.Time
}

// Task is a request with its status. One goroutine at a time moves it on; any may read the status.
// err, done and sum are written before the state becomes terminal.
type Task struct {
	Req   Request
	Index int // in the batch
	State atomic.Uint32
	Moved atomic.Uint64
	Err   error
	done  time.Time
	Sum   checksum
	// Grained is how many bytes have their checksums in Req.Grains.
	Grained int
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
	r.Grained = t.Req.Grains.Sums != nil && t.Err == nil && t.Grained == len(t.Req.Local)
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
