package transfer

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

const (
	// settleTime is how long changes of a transport are collected before they are
	// published: a port that goes down tells several.
	settleTime = 50 * time.Millisecond
	// republishTries bounds the attempts at publishing a change; the wait doubles each time.
	republishTries = 6
)

// watch follows the changes of the transports and refreshes descriptors, from the first
// time the engine has to do with peers until it is closed.
func (e *Engine) watch() {
	e.watched.Do(func() {
		for i := range e.carriers {
			c := &e.carriers[i]
			if ch, ok := transport.As[transport.Changing](c.Transport); ok {
				e.spawn(func() { e.follow(i, ch.Changed()) })
			}
		}
		if e.cfg.RefreshInterval > 0 {
			e.spawn(e.keepFresh)
		}
	})
}

// follow reads the rails again and publishes anew after each change of a transport.
func (e *Engine) follow(i int, changed <-chan struct{}) {
	c := &e.carriers[i]
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-changed:
		}
		e.reread(c)
		if !e.sleep(settleTime) {
			return
		}
		select {
		case <-changed:
			e.reread(c)
		default:
		}
		wait := 2 * settleTime
		for try := 1; ; try++ {
			ctx, cancel := context.WithTimeout(e.ctx, e.cfg.ConnectTimeout)
			e.catchUp(ctx, i)
			err := e.republish(ctx)
			cancel()
			if err == nil {
				break
			}
			if try == republishTries {
				e.log.Error("a change of a transport is not published; peers see it when this node publishes next",
					"transport", c.Name, "error", err)
				break
			}
			if !e.sleep(wait) {
				return
			}
			wait *= 2
		}
	}
}

// reread asks all paths of a transport for their rails.
func (e *Engine) reread(c *Carrier) {
	for _, p := range e.known() {
		p.mu.Lock()
		links := p.links
		p.mu.Unlock()
		for _, l := range links {
			if l.carrier == c {
				l.rails.refresh()
				notify(l.space)
			}
		}
	}
}

// known lists the peers that have been used and did not give way.
func (e *Engine) known() []*peer {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]*peer, 0, len(e.peers))
	for _, p := range e.peers {
		out = append(out, p)
	}
	return out
}

// sleep waits; false when the engine was closed meanwhile.
func (e *Engine) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-e.ctx.Done():
		return false
	}
}
