package router

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/internal/boottime"
	"github.com/mooncake-go/mooncake/core/internal/callctx"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	// failsToDown is how many consecutive calls must go unanswered before a cell counts as down.
	failsToDown = 2
	// askGap is the least time between two questions whether a cell that is down is up, askTimeout bounds one.
	askGap, askTimeout = 100 * time.Millisecond, time.Second
	// handover is how long after a cell was led last a call that no master has taken is repeated, each time after pause: one that no
	// connection took, or that a master refused.
	handover, pause = 500 * time.Millisecond, 10 * time.Millisecond
)

// cell is one cell as a Router knows it.
type cell struct {
	background func(func(ctx context.Context)) bool // see Router
	tell       func()
	index, of  int
	master     store.Master
	calls      sync.Pool // of *call

	mu      sync.Mutex
	down    error // why calls fail at once, nil while the cell answers
	fails   int   // consecutive calls without an answer
	pending map[*call]struct{}
	asking  bool      // whether it is up
	asked   time.Time // last time
	unled   time.Time // since when no master takes calls, zero while one does
	// heard is when the last ping was sent that the master answered, by the clock of package boottime; zero before the first.
	heard time.Time
	// epoch is that of the last ping that the master answered. No later master of the cell has a lower one.
	epoch uint64
	// silent: the master has answered no ping for so long that puts of this process have no right to write there any more.
	silent bool
}

// call is the context of a call in flight. It is pooled.
type call struct{ callctx.Call }

var errGaveUp = errors.New("the cell does not answer")

// String names the cell in errors.
func (c *cell) String() string { return fmt.Sprintf("cell %d of %d", c.index, c.of) }

// ask makes a call to the master of a cell. It fails at once while the cell is down, and when it turns out to be. While one master
// hands the cell over to another, it waits for that for a moment.
func ask[T any](ctx context.Context, c *cell, f func(context.Context) (T, error)) (T, error) {
	if c.of == 1 {
		return f(ctx)
	}
	for {
		out, err := try(ctx, c, f)
		if !c.unledFor(err) {
			return out, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return out, err
		}
	}
}

// unledFor notes whether a master took a call, and reports whether it is worth another try.
func (c *cell) unledFor(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.unled = time.Time{}
	case !errs.Is(err, errs.UnavailableInCurrentStatus) && !errors.Is(err, store.ErrNotSent):
	case c.unled.IsZero():
		c.unled = time.Now()
		return true
	default:
		return time.Since(c.unled) < handover
	}
	return false
}

func try[T any](ctx context.Context, c *cell, f func(context.Context) (T, error)) (T, error) {
	var none T
	w, err := c.begin(ctx)
	if err != nil {
		return none, err
	}
	out, err := f(&w.Call)
	if err = c.end(ctx, w, err); err != nil {
		return none, err
	}
	return out, nil
}

func (c *cell) begin(ctx context.Context) (*call, error) {
	w, ok := c.calls.Get().(*call)
	if !ok {
		w = &call{}
	}
	w.Begin(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down != nil {
		if w.Finish() {
			c.calls.Put(w)
		}
		c.askAgain()
		return nil, c.refusal()
	}
	c.pending[w] = struct{}{}
	return w, nil
}

// end ends a call and returns its error.
func (c *cell) end(ctx context.Context, w *call, err error) error {
	c.mu.Lock()
	delete(c.pending, w)
	gaveUp := err != nil && w.Cause() != nil
	if gaveUp {
		err = c.refusal()
	}
	c.mu.Unlock()
	if w.Finish() {
		c.calls.Put(w)
	}
	if !gaveUp {
		c.judge(ctx, err)
	}
	return err
}

// judge notes how a call went.
func (c *cell) judge(ctx context.Context, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !unanswered(err):
		if ctx.Err() == nil || err == nil {
			c.fails, c.down = 0, nil
		}
	case ctx.Err() != nil: // Its caller ended it, which says nothing of the cell.
	default:
		c.failed(err)
	}
}

// failed notes that the master did not answer a call. mu is held.
func (c *cell) failed(err error) {
	if c.fails++; c.fails >= failsToDown {
		c.declareDown(err)
		return
	}
	c.askAgain()
}

// declareDown has calls fail at once, also those in flight. mu is held.
func (c *cell) declareDown(cause error) {
	if c.down == nil {
		for w := range c.pending {
			w.End(errGaveUp)
		}
	}
	c.down = cause
	c.askAgain()
}

// refusal is the error of a call that was not made or not answered. mu is held.
func (c *cell) refusal() error {
	if c.down == nil { // It is up again by now.
		return errs.WithClass(errs.ClassTransientPeer, "", errs.New(errs.RPCTimeout, "store", "the master of %s did not answer", c))
	}
	if errors.Is(c.down, store.ErrNoLeader) || errors.Is(c.down, errs.ErrForeign) {
		return c.down // It is complete.
	}
	err := errs.New(errs.RPCFail, "store", "the master of %s does not answer: %w", c, c.down)
	return errs.WithHint(errs.WithClass(errs.ClassTransientPeer, "", err), "calls on its keys fail at once until it answers again; go on without them")
}

// moved is told that another master leads the cell, or none.
func (c *cell) moved() {
	c.mu.Lock()
	c.down, c.fails = nil, 0
	c.mu.Unlock()
	c.tell()
}

// askAgain asks in the background whether the cell is up. mu is held.
func (c *cell) askAgain() {
	if c.asking || time.Since(c.asked) < askGap {
		return
	}
	c.asking, c.asked = true, time.Now()
	if !c.background(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		_, err := c.master.Ready(ctx)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.asking = false
		switch {
		case !unanswered(err) && (err == nil || ctx.Err() == nil):
			c.fails, c.down = 0, nil
		case !errors.Is(ctx.Err(), context.Canceled):
			c.failed(err)
		}
	}) {
		c.asking = false
	}
}

// state returns why calls fail at once, nil for a cell that answers, and has it asked again then.
func (c *cell) state() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down != nil {
		c.askAgain()
		return c.refusal()
	}
	return nil
}

// checked takes the answer to a question whether the cell is up, which ctx bounded.
func (c *cell) checked(ctx context.Context, err error) error {
	late := errors.Is(ctx.Err(), context.DeadlineExceeded)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil || !unanswered(err) && !late:
		c.fails, c.down = 0, nil
	case late || ctx.Err() == nil:
		c.declareDown(err)
	}
	return err
}

// hear notes that the master of an epoch has answered a ping that was sent at a time.
func (c *cell) hear(sent time.Time, epoch uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard, c.silent, c.epoch = sent, false, max(c.epoch, epoch)
}

// lowestEpoch returns the lowest epoch that a master of the cells may have now or later, 0 before all have answered a ping.
func lowestEpoch(list []*cell) uint64 {
	lowest := uint64(math.MaxUint64)
	for _, c := range list {
		c.mu.Lock()
		lowest = min(lowest, c.epoch)
		c.mu.Unlock()
	}
	return lowest
}

// longSilence is after how long without a ping that was answered a process makes no more puts in a cell. It is longer than the
// right to write lasts that a ping gives (package session), so that no put of before has that right any more.
const longSilence = 25 * time.Second

// writesOff reports whether the process has no puts in a cell that did not answer a ping, so that the right to write in the
// other cells does not depend on it.
func (c *cell) writesOff() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.heard.IsZero() && boottime.Time().Sub(c.heard) >= longSilence {
		c.silent = true
	}
	return c.silent || c.heard.IsZero()
}

// mayWrite returns an error for puts where the right to write does not count.
func (c *cell) mayWrite() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.silent {
		return nil
	}
	return errs.WithClass(errs.ClassTransientPeer, "", errs.New(errs.RPCFail, "store", "the master of %s has not answered a ping for %v, so nothing can be put there", c, longSilence))
}

func allDown(list []*cell) bool {
	for _, c := range list {
		c.mu.Lock()
		down := c.down != nil || c.fails > 0
		c.mu.Unlock()
		if !down {
			return false
		}
	}
	return true
}

// unanswered is session.Unanswered.
func unanswered(err error) bool {
	code := errs.CodeOf(err)
	return code == errs.RPCFail || code == errs.RPCTimeout || errors.Is(err, errs.ErrForeign) || errors.Is(err, store.ErrNoLeader)
}
