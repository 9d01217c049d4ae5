package conformance

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
)

// logLimit bounds what is kept of the log of one check, in bytes.
const logLimit = 64 << 10

// check is the T of a run outside of `go test`.
type check struct {
	name     string
	root     *check // the whole check, of which this may be a part
	patience time.Duration
	ctx      context.Context
	cancel   context.CancelFunc

	mu       sync.Mutex
	failed   bool
	skipped  bool
	sealed   bool // the result was taken; what comes later is dropped
	message  string
	log      strings.Builder
	cut      bool
	cleanups []func()
	measured []Figure
	calls    map[uint64]call // of the root: those that have not returned
	next     uint64
	detail   string
}

func newCheck(ctx context.Context, name string) *check {
	c := &check{name: name, calls: map[uint64]call{}}
	c.root = c
	c.ctx, c.cancel = context.WithCancel(ctx)
	return c
}

// run calls f and then what it left to clean up. It returns when all of that did.
func (c *check) run(f func(T)) {
	c.guard(func() { f(c) })
	c.cancel()
	for {
		c.mu.Lock()
		n := len(c.cleanups)
		if n == 0 {
			c.mu.Unlock()
			return
		}
		next := c.cleanups[n-1]
		c.cleanups = c.cleanups[:n-1]
		c.mu.Unlock()
		c.guard(next)
	}
}

// guard calls f on a goroutine of its own, which f may end, and turns a panic into a failure.
func (c *check) guard(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				c.fail(fmt.Sprintf("panic: %v", p))
				c.details(string(debug.Stack()))
			}
		}()
		f()
	}()
	<-done
}

// write adds to the log, and keeps the first words of a failure or of a skip.
func (c *check) write(text string, change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sealed {
		return
	}
	if change != nil {
		change()
	}
	text = strings.TrimRight(text, "\n") + "\n"
	switch {
	case c.log.Len()+len(text) <= logLimit:
		c.log.WriteString(text)
	case !c.cut:
		c.cut = true
		c.log.WriteString("... the rest of the log is left out\n")
	}
}

func (c *check) fail(text string) {
	c.write(text, func() {
		c.failed = true
		if c.message == "" {
			c.message = short(text)
		}
	})
}

func (c *check) figure(f Figure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.sealed {
		c.measured = append(c.measured, f)
	}
}

// details keeps what only an author of the kit or of a plugin in Go wants to see.
func (c *check) details(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.sealed && len(c.detail)+len(text) <= logLimit {
		c.detail += text + "\n"
	}
}

// seal takes the result.
func (c *check) seal() (Check, []Figure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sealed = true
	out := Check{Name: c.name, Status: Pass, Message: c.message, Log: c.log.String(), Detail: c.detail}
	switch {
	case c.failed:
		out.Status = Fail
	case c.skipped:
		out.Status = Skip
	}
	return out, c.measured
}

func (c *check) Helper()                           {}
func (c *check) Name() string                      { return c.name }
func (c *check) Context() context.Context          { return c.ctx }
func (c *check) Log(args ...any)                   { c.write(fmt.Sprintln(args...), nil) }
func (c *check) Logf(format string, args ...any)   { c.write(fmt.Sprintf(format, args...), nil) }
func (c *check) Error(args ...any)                 { c.fail(fmt.Sprintln(args...)) }
func (c *check) Errorf(format string, args ...any) { c.fail(fmt.Sprintf(format, args...)) }

func (c *check) Fail() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = c.failed || !c.sealed
}

func (c *check) FailNow() {
	c.Fail()
	runtime.Goexit()
}

func (c *check) Fatal(args ...any) {
	c.Error(args...)
	runtime.Goexit()
}

func (c *check) Fatalf(format string, args ...any) {
	c.Errorf(format, args...)
	runtime.Goexit()
}

func (c *check) SkipNow() {
	c.mu.Lock()
	c.skipped = c.skipped || !c.sealed
	c.mu.Unlock()
	runtime.Goexit()
}

func (c *check) Skip(args ...any) {
	text := fmt.Sprintln(args...)
	c.write(text, func() { c.message = strings.TrimSpace(text) })
	c.SkipNow()
}

func (c *check) Skipf(format string, args ...any) { c.Skip(fmt.Sprintf(format, args...)) }

func (c *check) Failed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

func (c *check) Skipped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.skipped
}

func (c *check) Cleanup(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cleanups = append(c.cleanups, f)
}

func (c *check) TempDir() string {
	dir, err := os.MkdirTemp("", "conformance")
	if err != nil {
		c.Fatalf("a temporary folder: %v", err)
	}
	c.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			c.Errorf("a temporary folder: %v", err)
		}
	})
	return dir
}

// Run implements T. The part shares the log of the whole, under its name.
func (c *check) Run(name string, f func(T)) bool {
	part := newCheck(c.ctx, c.name+"/"+name)
	part.root = c.root
	part.run(f)
	got, measured := part.seal()
	for _, m := range measured {
		c.figure(m)
	}
	c.details(got.Detail)
	switch got.Status {
	case Fail:
		c.write(name+":\n"+got.Log, func() {
			c.failed = true
			if c.message == "" {
				c.message = name + ": " + got.Message
			}
		})
	case Skip:
		c.Logf("%s: skipped: %s", name, got.Message)
	default:
		if got.Log != "" {
			c.Logf("%s:\n%s", name, got.Log)
		}
	}
	return got.Status != Fail
}

// DefaultPatience is how long a check waits for a plugin where the contract names no time.
const DefaultPatience = 30 * time.Second

// Patience returns how long a check should wait for what the plugin has to do. Reaching it is a failure.
func Patience(t TB) time.Duration {
	if c, ok := t.(*check); ok && c.root.patience > 0 {
		return c.root.patience
	}
	return DefaultPatience
}

// Call tells t that a call of the plugin begins, and returns the function that tells it that the call
// returned. A check whose call lasts longer than a third more than its Patience fails and is left
// behind: the failure names the call, and the next check runs. what is called only then.
// Call is safe for concurrent use. With a TB that is not of this package it does nothing.
func Call(t TB, what func() string) (returned func()) {
	c, ok := t.(*check)
	if !ok {
		return func() {}
	}
	r := c.root
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	id := r.next
	r.calls[id] = call{what, time.Now()}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.calls, id)
	}
}

// call is a call of the plugin that has not returned.
type call struct {
	what  func() string
	began time.Time
}

// callLimit is how long a call may last.
func (c *check) callLimit() time.Duration { return Patience(c) * 4 / 3 }

// stuck names the calls that have lasted for at least d, the oldest first; empty if there are none.
func (c *check) stuck(d time.Duration) string {
	c.mu.Lock()
	var old []call
	for _, x := range c.calls {
		if time.Since(x.began) >= d {
			old = append(old, x)
		}
	}
	c.mu.Unlock()
	if len(old) == 0 {
		return ""
	}
	slices.SortFunc(old, func(a, b call) int { return a.began.Compare(b.began) })
	text := fmt.Sprintf("%s has not returned for %v", old[0].what(), time.Since(old[0].began).Round(100*time.Millisecond))
	if more := len(old) - 1; more > 0 {
		text += fmt.Sprintf("; %d more calls hang as well", more)
	}
	return text
}

// watch returns a channel that gets the name of a call that exceeds its limit. end ends it.
func (c *check) watch() (hangs <-chan string, end func()) {
	found, stop, limit := make(chan string, 1), make(chan struct{}), c.callLimit()
	tick := time.NewTicker(min(time.Second, limit/10+time.Millisecond))
	go func() {
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if text := c.stuck(limit); text != "" {
					found <- text
					return
				}
			case <-stop:
				return
			}
		}
	}()
	return found, func() { close(stop) }
}
