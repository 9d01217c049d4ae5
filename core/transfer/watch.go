package transfer

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

const (
	// settleTime is how long changes of a transport are collected before they are
	// published: a port that goes down causes several.
	settleTime = 50 * time.Millisecond
	// republishTries bounds the attempts at publishing a change; the wait doubles each time.
	republishTries = 6
)

// watch follows the changes of the transports and refreshes descriptors, from the first
// time the engine has to do with peers until it is closed.
func (e *Engine) watch() {
	e.watched.Do(func() {
		for i := range e.carriers.list {
			c := &e.carriers.list[i]
			if ch, ok := transport.As[transport.Changing](c.Transport); ok {
				e.life.spawn(func() { e.follow(i, ch.Changed()) })
			}
		}
		if e.cfg.RefreshInterval > 0 {
			e.life.spawn(e.keepFresh)
		}
	})
}

// follow reads the rails again and publishes anew after each change of a transport.
func (e *Engine) follow(i int, changed <-chan struct{}) {
	c := &e.carriers.list[i]
	for {
		select {
		case <-e.life.connecting.Done():
			return
		case <-changed:
		}
		e.peers.reread(c)
		if !e.life.sleep(settleTime) {
			return
		}
		select {
		case <-changed:
			e.peers.reread(c)
		default:
		}
		wait := 2 * settleTime
		for try := 1; ; try++ {
			ctx, cancel := context.WithTimeout(e.life.connecting, e.cfg.ConnectTimeout)
			e.regions.catchUp(ctx, i)
			err := e.publisher.republish(ctx)
			cancel()
			if err == nil {
				break
			}
			if try == republishTries {
				e.log.Error("a change of a transport is not published; peers see it when this node publishes next",
					"transport", c.Name, "error", err)
				break
			}
			if !e.life.sleep(wait) {
				return
			}
			wait *= 2
		}
	}
}

// keepFresh fetches the descriptors of all known peers at intervals.
func (e *Engine) keepFresh() {
	for e.life.sleep(e.cfg.RefreshInterval) {
		if err := e.peers.refresh(e.life.connecting); err != nil && e.life.connecting.Err() == nil {
			e.log.Warn("descriptors of peers were not refreshed", "error", err)
		}
	}
}
