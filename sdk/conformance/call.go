package conformance

import (
	"fmt"
	"slices"
	"time"
)

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
