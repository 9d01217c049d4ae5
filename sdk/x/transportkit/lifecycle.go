// Package transportkit holds what transports share beside their paths (pathkit) and regions
// (regionkit): the options of the address to listen on, the accept loop, starting and stopping
// once, and the reasons for which a peer refuses a request.
package transportkit

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

type state uint8

const (
	stateNew state = iota
	stateRunning
	stateStopping
)

// Lifecycle is the state of a transport, which starts once and stops once. The mutex of the
// transport guards it: a method whose comment says "mu is held" is called with that mutex locked,
// the others without it.
type Lifecycle struct {
	mu      *sync.Mutex
	name    string
	turn    sync.Mutex // held by Start, and by Stop while it decides
	state   state
	stopped chan struct{} // closed when Stop is done
	err     error         // of Stop; set before stopped is closed
}

// Init must be called before any other method. Errors begin with name, as in "transport/tcp".
func (l *Lifecycle) Init(mu *sync.Mutex, name string) {
	l.mu, l.name, l.stopped = mu, name, make(chan struct{})
}

// Start calls open, which calls Run where it succeeds. It fails after a Start or Stop.
func (l *Lifecycle) Start(open func() error) error {
	l.turn.Lock()
	defer l.turn.Unlock()
	l.mu.Lock()
	state := l.state
	l.mu.Unlock()
	if state != stateNew {
		return l.ErrStarted()
	}
	return open()
}

// ErrStarted refuses a second Start.
func (l *Lifecycle) ErrStarted() error {
	return errs.New(errs.UnavailableInCurrentStatus, l.name+": start", "started or stopped before; make a new one")
}

// Run marks the transport as running. mu is held.
func (l *Lifecycle) Run() { l.state = stateRunning }

// Running reports whether the transport has started and Stop was not called. mu is held.
func (l *Lifecycle) Running() bool { return l.state == stateRunning }

// Stopping reports whether Stop was called. mu is held.
func (l *Lifecycle) Stopping() bool { return l.state == stateStopping }

// New reports whether neither Run nor Stop was called. mu is held.
func (l *Lifecycle) New() bool { return l.state == stateNew }

// Check is Require for a caller that does not hold mu.
func (l *Lifecycle) Check(op string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Require(op)
}

// Require returns an error unless the transport is running. mu is held.
func (l *Lifecycle) Require(op string) error {
	if l.state != stateRunning {
		return errs.New(errs.UnavailableInCurrentStatus, op, "the transport is not running")
	}
	return nil
}

// Stop calls free where the transport was running. A second call waits for the first and returns
// its error.
func (l *Lifecycle) Stop(ctx context.Context, free func() error) error {
	l.turn.Lock()
	l.mu.Lock()
	was := l.state
	l.state = stateStopping
	l.mu.Unlock()
	l.turn.Unlock()
	switch was {
	case stateNew:
		close(l.stopped)
		return nil
	case stateStopping:
		select {
		case <-l.stopped:
			return l.err
		case <-ctx.Done():
			return fmt.Errorf("%s: stop: another call is at it: %w", l.name, ctx.Err())
		}
	}
	defer close(l.stopped)
	l.err = free()
	return l.err
}

// WaitFor waits for wg, at most for limit and until the context ends. The channel is closed when wg
// is at zero, true says that it was in time.
func WaitFor(ctx context.Context, wg *sync.WaitGroup, limit time.Duration) (<-chan struct{}, bool) {
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case <-done:
		return done, true
	case <-ctx.Done():
		return done, false
	}
}

// Incarnation returns a random number for one start of a transport, never 0.
func Incarnation() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // It never fails.
	return max(binary.LittleEndian.Uint64(b[:]), 1)
}

// acceptPause is the wait after a failed accept, as when the process has no descriptors left.
const acceptPause = 20 * time.Millisecond

// Accept hands connections to handle until the listener is closed. It logs the first of a run of
// failures and tries again after a pause.
func Accept[C any](accept func() (C, error), log *slog.Logger, handle func(C)) {
	for failing := false; ; {
		c, err := accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err == nil:
			failing = false
			handle(c)
			continue
		case !failing:
			log.Warn("cannot accept connections; trying on", "error", err)
			failing = true
		}
		time.Sleep(acceptPause)
	}
}
