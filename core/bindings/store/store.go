package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/bindings/lasterr"
	"github.com/mooncake-go/mooncake/core/bindings/settings"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Code is a status of the C interface: 0 for success, else a number of sdk/errs.
type Code = int64

// Options are the common settings of the stores of one process.
type Options struct {
	// Builtins are the plugins that are linked in.
	Builtins []plugin.Factory
	// Environ returns the present environment.
	Environ func() []string
	// Log receives the log lines.
	Log io.Writer
	// Memory is the memory that a dummy client can register. It may be nil.
	Memory *HostMemory
}

// Store is a store that can be set up, closed, and set up again. It is safe for concurrent use.
type Store struct {
	*state
	thread int // the calling thread, 0 for the running one
}

// state is the state that all callers of a Store share.
type state struct {
	opts Options

	life      sync.Mutex                         // held by Setup, SetupDummy and Close
	interrupt atomic.Pointer[context.CancelFunc] // of the Setup in progress, nil without one
	current   atomic.Pointer[opened]
	failure   lasterr.Record
}

// opened is a store that is set up, or pending.
type opened struct {
	pending *attempt // the arguments of a Setup that has not succeeded yet, else nil; guarded by life
	pool    store.Pool
	node    *app.Node // nil for a dummy client
	close   func(context.Context) error
	log     *slog.Logger

	registered regions
	mounted    mounts
	lent       lents
}

// New makes a store that is not set up. It acquires nothing.
func New(o Options) *Store { return &Store{state: &state{opts: o}} }

// OfThisThread returns the same store for a call of this thread that another goroutine carries out.
// The error of the call is recorded for this thread.
func (s *Store) OfThisThread() *Store { return &Store{state: s.state, thread: unix.Gettid()} }

// source returns the source of settings.
func (s *Store) source() settings.Source {
	return settings.Source{Environ: s.opts.Environ(), Builtins: s.opts.Builtins, Log: s.opts.Log}
}

// closeTimeout bounds Close, besides the grace of an unmount.
const closeTimeout = 20 * time.Second

// Close ends a Setup in progress, waits for calls in progress, in bounded time, and frees everything.
// It returns 0 for a store that is not set up, too. Objects in lent memory stay.
func (s *Store) Close() Code {
	s.Interrupt()
	s.life.Lock()
	defer s.life.Unlock()
	o := s.current.Swap(nil)
	if o == nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := o.end(ctx)
	if err != nil {
		o.log.Error("the store was not closed completely", "error", err)
	}
	return s.note(err)
}

// Shut is Close for the end of a handle.
func (s *Store) Shut() { s.Close() }

// IsSetup reports whether the store is set up, or pending.
func (s *Store) IsSetup() bool { return s.current.Load() != nil }

// errNotSetup is the error of calls on a store that is not set up.
var errNotSetup = errs.New(errs.InvalidParams, "store", "it is not set up; call setup first")

// LastError returns why the last call of this thread failed. It is empty after a success; see
// package lasterr.
func (s *Store) LastError() string { return s.failure.Text() }

// Begin records that a call of this thread begins, for LastError.
func (s *Store) Begin() { s.failure.Begin() }

// note records an error for LastError and returns its code.
func (s *Store) note(err error) Code {
	if err == nil {
		return 0
	}
	s.failure.Note(s.thread, err)
	return codeOf(err)
}

// noteAll sets every result to the code of one error.
func (s *Store) noteAll(err error, results []Code) {
	code := s.note(err)
	for i := range results {
		results[i] = code
	}
}

// codeOf returns the code of an error, which is never 0.
func codeOf(err error) Code {
	if code := errs.CodeOf(err); code < 0 {
		return Code(code)
	}
	return Code(errs.Internal)
}

// Health returns 0 for a store that works and 1 for a store that is not set up. It returns 2 if the
// master, or the process that serves a dummy client, does not answer, and for a pending store.
func (s *Store) Health() Code {
	o := s.current.Load()
	if o == nil {
		return 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), healthTimeout)
	defer cancel()
	_, err := o.pool.Ready(ctx)
	if err == nil && o.node != nil && !o.node.Node.Joined() {
		err = errs.New(errs.UnavailableInCurrentStatus, "store", "it has not joined the pool yet")
	}
	if err != nil {
		s.note(err)
		return 2
	}
	return 0
}

// healthTimeout bounds Health.
const healthTimeout = 5 * time.Second

// Hostname returns the name of this client's segments, "host:port". It is empty for a store that is
// not set up.
func (s *Store) Hostname() string {
	if o := s.current.Load(); o != nil {
		return o.pool.Hostname()
	}
	return ""
}

// with calls do with the store that is set up. Otherwise every result is the code of errNotSetup.
func (s *Store) with(results []Code, do func(context.Context, *opened)) {
	defer s.guard(results)
	o := s.current.Load()
	if o == nil {
		s.noteAll(errNotSetup, results)
		return
	}
	do(context.Background(), o)
}

// guard turns a panic of a call into an error, since an error of this library must not end its host.
func (s *Store) guard(results []Code) {
	if r := recover(); r != nil {
		err := errs.Wrap(errs.Internal, "store", errors.New(fmt.Sprint("this is an error of the library: ", r)))
		s.noteAll(err, results)
	}
}
